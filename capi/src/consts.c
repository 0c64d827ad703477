/* Constants of mpi.h that are casts or addresses, which bindgen leaves out. */
#include <mpi.h>

const MPI_Errhandler CAPULET_ERRHANDLER_NULL = MPI_ERRHANDLER_NULL;

/* MPI 4.0 added MPI_ERRORS_ABORT; where the MPI has none, the null handle stands for it, which no caller may set. */
#ifdef MPI_ERRORS_ABORT
const MPI_Errhandler CAPULET_ERRORS_ABORT = MPI_ERRORS_ABORT;
#else
const MPI_Errhandler CAPULET_ERRORS_ABORT = MPI_ERRHANDLER_NULL;
#endif
