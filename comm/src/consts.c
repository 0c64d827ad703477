/* Constants of this MPI that bindgen cannot see: macros with casts, enumerators and addresses. Each list
 * has the order of its Rust counterpart, which the comment above the list names. A unit test compares the
 * lengths. */
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
const int capulet_info_key_bytes_max = MPI_MAX_INFO_KEY;
const int capulet_info_value_bytes_max = MPI_MAX_INFO_VAL;
const int capulet_mode_nocheck = MPI_MODE_NOCHECK;
const int capulet_lock_exclusive = MPI_LOCK_EXCLUSIVE;
const MPI_Op capulet_replace = MPI_REPLACE;
const MPI_Op capulet_no_op = MPI_NO_OP;
const MPI_Datatype capulet_byte = MPI_BYTE;

/* COMBINERS (types/contents.rs). INT_MIN, which no MPI uses, stands for a combiner that this MPI does not
 * have. */
#if defined(OPEN_MPI) && defined(OMPI_ENABLE_MPI1_COMPAT) && !OMPI_ENABLE_MPI1_COMPAT
#define HVECTOR_INTEGER OMPI_WAS_MPI_COMBINER_HVECTOR_INTEGER
#define HINDEXED_INTEGER OMPI_WAS_MPI_COMBINER_HINDEXED_INTEGER
#define STRUCT_INTEGER OMPI_WAS_MPI_COMBINER_STRUCT_INTEGER
#else
#define HVECTOR_INTEGER MPI_COMBINER_HVECTOR_INTEGER
#define HINDEXED_INTEGER MPI_COMBINER_HINDEXED_INTEGER
#define STRUCT_INTEGER MPI_COMBINER_STRUCT_INTEGER
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define VALUE_INDEX MPI_COMBINER_VALUE_INDEX
#else
#define VALUE_INDEX INT_MIN
#endif
const int capulet_combiners[] = {
    MPI_COMBINER_NAMED, MPI_COMBINER_DUP, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_VECTOR,
    MPI_COMBINER_HVECTOR, HVECTOR_INTEGER, MPI_COMBINER_INDEXED, MPI_COMBINER_HINDEXED, HINDEXED_INTEGER,
    MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_STRUCT, STRUCT_INTEGER,
    MPI_COMBINER_SUBARRAY, MPI_COMBINER_DARRAY, MPI_COMBINER_RESIZED, MPI_COMBINER_F90_INTEGER,
    MPI_COMBINER_F90_REAL, MPI_COMBINER_F90_COMPLEX, VALUE_INDEX,
};
const int capulet_combiner_count = sizeof(capulet_combiners) / sizeof(capulet_combiners[0]);

const int capulet_order_c = MPI_ORDER_C;
const int capulet_order_fortran = MPI_ORDER_FORTRAN;
const int capulet_distribute_none = MPI_DISTRIBUTE_NONE;
const int capulet_distribute_block = MPI_DISTRIBUTE_BLOCK;
const int capulet_distribute_cyclic = MPI_DISTRIBUTE_CYCLIC;
const int capulet_distribute_default = MPI_DISTRIBUTE_DFLT_DARG;

/* The predefined datatypes and their names (types/named.rs). */
struct capulet_named {
    MPI_Datatype handle;
    const char *name;
};
#define NAMED(type) {type, #type}
const struct capulet_named capulet_named_types[] = {
    NAMED(MPI_CHAR), NAMED(MPI_SIGNED_CHAR), NAMED(MPI_UNSIGNED_CHAR), NAMED(MPI_SHORT),
    NAMED(MPI_UNSIGNED_SHORT), NAMED(MPI_INT), NAMED(MPI_UNSIGNED), NAMED(MPI_LONG),
    NAMED(MPI_UNSIGNED_LONG), NAMED(MPI_LONG_LONG), NAMED(MPI_UNSIGNED_LONG_LONG), NAMED(MPI_FLOAT),
    NAMED(MPI_DOUBLE), NAMED(MPI_LONG_DOUBLE), NAMED(MPI_WCHAR), NAMED(MPI_C_BOOL), NAMED(MPI_INT8_T),
    NAMED(MPI_INT16_T), NAMED(MPI_INT32_T), NAMED(MPI_INT64_T), NAMED(MPI_UINT8_T), NAMED(MPI_UINT16_T),
    NAMED(MPI_UINT32_T), NAMED(MPI_UINT64_T), NAMED(MPI_C_FLOAT_COMPLEX), NAMED(MPI_C_DOUBLE_COMPLEX),
    NAMED(MPI_C_LONG_DOUBLE_COMPLEX), NAMED(MPI_AINT), NAMED(MPI_OFFSET), NAMED(MPI_COUNT), NAMED(MPI_BYTE),
    NAMED(MPI_PACKED), NAMED(MPI_FLOAT_INT), NAMED(MPI_DOUBLE_INT), NAMED(MPI_LONG_INT),
    NAMED(MPI_SHORT_INT), NAMED(MPI_2INT), NAMED(MPI_LONG_DOUBLE_INT),
/* The following datatypes depend on the languages and Fortran kinds that the MPI library was built for. */
#ifdef MPI_CXX_BOOL
    NAMED(MPI_CXX_BOOL),
#endif
#ifdef MPI_CXX_FLOAT_COMPLEX
    NAMED(MPI_CXX_FLOAT_COMPLEX),
#endif
#ifdef MPI_CXX_DOUBLE_COMPLEX
    NAMED(MPI_CXX_DOUBLE_COMPLEX),
#endif
#ifdef MPI_CXX_LONG_DOUBLE_COMPLEX
    NAMED(MPI_CXX_LONG_DOUBLE_COMPLEX),
#endif
#ifdef MPI_CHARACTER
    NAMED(MPI_CHARACTER), NAMED(MPI_LOGICAL), NAMED(MPI_INTEGER), NAMED(MPI_REAL),
    NAMED(MPI_DOUBLE_PRECISION), NAMED(MPI_COMPLEX), NAMED(MPI_DOUBLE_COMPLEX), NAMED(MPI_2REAL),
    NAMED(MPI_2DOUBLE_PRECISION), NAMED(MPI_2INTEGER),
#endif
#ifdef MPI_LOGICAL1
    NAMED(MPI_LOGICAL1),
#endif
#ifdef MPI_LOGICAL2
    NAMED(MPI_LOGICAL2),
#endif
#ifdef MPI_LOGICAL4
    NAMED(MPI_LOGICAL4),
#endif
#ifdef MPI_LOGICAL8
    NAMED(MPI_LOGICAL8),
#endif
#ifdef MPI_LOGICAL16
    NAMED(MPI_LOGICAL16),
#endif
#ifdef MPI_INTEGER1
    NAMED(MPI_INTEGER1),
#endif
#ifdef MPI_INTEGER2
    NAMED(MPI_INTEGER2),
#endif
#ifdef MPI_INTEGER4
    NAMED(MPI_INTEGER4),
#endif
#ifdef MPI_INTEGER8
    NAMED(MPI_INTEGER8),
#endif
#ifdef MPI_INTEGER16
    NAMED(MPI_INTEGER16),
#endif
#ifdef MPI_REAL2
    NAMED(MPI_REAL2),
#endif
#ifdef MPI_REAL4
    NAMED(MPI_REAL4),
#endif
#ifdef MPI_REAL8
    NAMED(MPI_REAL8),
#endif
#ifdef MPI_REAL16
    NAMED(MPI_REAL16),
#endif
#ifdef MPI_COMPLEX4
    NAMED(MPI_COMPLEX4),
#endif
#ifdef MPI_COMPLEX8
    NAMED(MPI_COMPLEX8),
#endif
#ifdef MPI_COMPLEX16
    NAMED(MPI_COMPLEX16),
#endif
#ifdef MPI_COMPLEX32
    NAMED(MPI_COMPLEX32),
#endif
#ifdef MPI_2COMPLEX
    NAMED(MPI_2COMPLEX),
#endif
#ifdef MPI_2DOUBLE_COMPLEX
    NAMED(MPI_2DOUBLE_COMPLEX),
#endif
};
const int capulet_named_count = sizeof(capulet_named_types) / sizeof(capulet_named_types[0]);
