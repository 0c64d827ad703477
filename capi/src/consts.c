/* Constants of mpi.h that are casts or addresses. bindgen does not generate these. */
#include <mpi.h>

const MPI_Errhandler CAPULET_ERRHANDLER_NULL = MPI_ERRHANDLER_NULL;

/* MPI 4.0 added MPI_ERRORS_ABORT. In an older MPI the constant is the null handle, which no caller may set. */
#ifdef MPI_ERRORS_ABORT
const MPI_Errhandler CAPULET_ERRORS_ABORT = MPI_ERRORS_ABORT;
#else
const MPI_Errhandler CAPULET_ERRORS_ABORT = MPI_ERRHANDLER_NULL;
#endif
