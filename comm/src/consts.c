/* Constants of this MPI that bindgen cannot see: macros with casts, enumerators, addresses.
 * Each list has the order of its Rust counterpart, named beside it; a unit test compares the lengths. */
#include <limits.h>
#include <mpi.h>

/* ErrorClass (class.rs) */
const int capulet_error_classes[] = {
    MPI_ERR_OTHER, MPI_ERR_ARG, MPI_ERR_COUNT, MPI_ERR_BUFFER, MPI_ERR_TYPE, MPI_ERR_COMM, MPI_ERR_INFO,
    MPI_ERR_INFO_KEY, MPI_ERR_INFO_VALUE, MPI_ERR_INFO_NOKEY, MPI_ERR_REQUEST, MPI_ERR_RANK, MPI_ERR_ROOT,
    MPI_ERR_TAG, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TRUNCATE, MPI_ERR_PENDING, MPI_ERR_KEYVAL, MPI_ERR_WIN,
    MPI_ERR_FILE, MPI_ERR_BAD_FILE, MPI_ERR_NO_SUCH_FILE, MPI_ERR_FILE_EXISTS, MPI_ERR_FILE_IN_USE,
    MPI_ERR_AMODE, MPI_ERR_ACCESS, MPI_ERR_READ_ONLY, MPI_ERR_NO_SPACE, MPI_ERR_QUOTA, MPI_ERR_NOT_SAME,
    MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_CONVERSION, MPI_ERR_DUP_DATAREP,
    MPI_ERR_IO, MPI_ERR_NO_MEM, MPI_ERR_UNKNOWN, MPI_ERR_INTERN,
};
const int capulet_error_class_count = sizeof(capulet_error_classes) / sizeof(capulet_error_classes[0]);

const int capulet_tag_bound_key = MPI_TAG_UB;
const int capulet_window_model_key = MPI_WIN_MODEL;
const int capulet_window_unified = MPI_WIN_UNIFIED;
const int capulet_info_key_bytes_max = MPI_MAX_INFO_KEY;
const int capulet_info_value_bytes_max = MPI_MAX_INFO_VAL;
const int capulet_mode_nocheck = MPI_MODE_NOCHECK;
const MPI_Datatype capulet_byte = MPI_BYTE;
