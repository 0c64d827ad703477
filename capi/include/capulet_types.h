/* capulet_types.h - MPI datatypes outside of MPI: the MPITypes toolkit, as implemented by Capulet.
 *
 * The functions copy, flatten, count, walk, convert and serialize the data that an MPI datatype describes.
 * Names and semantics are those of MPITypes (Ross, Latham, Gropp, Lusk and Thakur, "Processing MPI Datatypes
 * Outside MPI", 2009). The functions are in libcapulet_<mpi>.so. There is one library for each MPI.
 *
 * STREAM. A buffer is (base, count, datatype), as in MPI. The *stream* is the sequence of the bytes of its
 * data in the order of the type map, as MPI_Pack would write them. A range is a range of stream bytes:
 * `start` is its first byte, and `end` is the byte after its last byte. A range may begin and end anywhere,
 * also inside of a basic element.
 *
 * TYPES. A derived datatype must be committed, and must be initialized once with MPIT_Type_init. The results
 * of the initialization are an attribute of the datatype. Duplicates (MPI_Type_dup) inherit the attribute,
 * and MPI deletes it when it frees the datatype. These datatypes need no initialization: predefined
 * datatypes, datatypes that MPIT_Type_deserialize has made, and datatypes that have been passed to an
 * MPI_File_ function of Capulet.
 *
 * ERRORS. Every function returns MPI_SUCCESS or an MPI error class. No function calls an error handler or
 * aborts. If an argument is invalid, nothing is written.
 *   MPI_ERR_TYPE    the datatype is MPI_DATATYPE_NULL, not committed, not initialized, or cannot be described
 *   MPI_ERR_ARG     another argument is invalid: a null pointer, a negative count, a range that begins below
 *                   0 or after its end, or memory that is too small
 *   MPI_ERR_OTHER   the stream or an array of the caller ended before the range did. Everything before that
 *                   point has been processed. Also: MPI is not initialized, or is finalized.
 *   MPI_ERR_COUNT, MPI_ERR_CONVERSION   where the comment of a function says so
 *   MPI_ERR_NO_MEM  out of memory
 *   MPI_ERR_INTERN  a bug in Capulet
 *
 * THREADS. Every thread that may call MPI may call these functions, also with the same datatypes. At most one
 * thread at a time may use a segment. With MPI_THREAD_SERIALIZED and below, the calls are subject to the
 * rules of that level, like calls of MPI.
 */
#ifndef CAPULET_TYPES_H
#define CAPULET_TYPES_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of bytes or elements in the callbacks of a segment. */
typedef MPI_Aint MPIT_Offset;

/* ---- Basic functions ---------------------------------------------------------------------------------- */

/* Initializes a committed datatype. Local. Idempotent. Cheap after the first call. */
int MPIT_Type_init(MPI_Datatype type);

/* 1 if the datatype is initialized or needs no initialization, else 0. */
int MPIT_Type_is_initialized(MPI_Datatype type);

/* The directions of MPIT_Type_memcpy. */
#define MPIT_MEMCPY_TO_USERBUF 0
#define MPIT_MEMCPY_FROM_USERBUF 1

/* Copies the stream bytes start..end between a typed buffer and contiguous memory. The first byte of the
 * contiguous memory is stream byte `start`. The two buffers must not overlap. No byte outside of the range is
 * written. */
int MPIT_Type_memcpy(void *typebuf, int count, MPI_Datatype type, void *streambuf, int direction,
                     MPI_Offset start, MPI_Offset end);
int MPIT_Type_memcpy_c(void *typebuf, MPI_Count count, MPI_Datatype type, void *streambuf, int direction,
                       MPI_Offset start, MPI_Offset end);

/* Lists the contiguous regions that hold stream bytes start..end, in the order of the stream. Regions that
 * touch are one region.
 *   disps      the address at which each region begins: typebuf, which may be null, plus the displacement
 *   blocklens  the number of bytes of each region
 *   lengthp    on entry the length of both arrays, on return the number of listed regions
 * MPI_ERR_OTHER if there are more regions. The rest of the range begins at `start` plus the sum of blocklens.
 * A region that is too long for an int is listed in parts of 1 GiB. MPIT_Type_flatten_c has no such limit. */
int MPIT_Type_flatten(void *typebuf, int count, MPI_Datatype type, MPI_Offset start, MPI_Offset end,
                      MPI_Aint *disps, int *blocklens, int *lengthp);
int MPIT_Type_flatten_c(void *typebuf, MPI_Count count, MPI_Datatype type, MPI_Offset start, MPI_Offset end,
                        MPI_Aint *disps, MPI_Count *blocklens, MPI_Count *lengthp);

/* Counts the contiguous regions that hold stream bytes start..end. */
int MPIT_Type_blockct(int count, MPI_Datatype type, MPI_Offset start, MPI_Offset end, MPI_Aint *blocksp);
int MPIT_Type_blockct_c(MPI_Count count, MPI_Datatype type, MPI_Offset start, MPI_Offset end,
                        MPI_Count *blocksp);

/* Copies all data of one typed buffer to another, in one pass: byte i of the source stream becomes byte i of
 * the target stream. The copy ignores the types of the basic elements: it converts nothing, and the elements
 * of the two datatypes may differ. Both streams must have the same length (MPI_ERR_ARG). As with MPI, the
 * buffers must not overlap, and the target datatype must not overlap itself. */
int MPIT_Type_transpack(const void *sourcebuf, MPI_Count sourcecount, MPI_Datatype sourcetype,
                        void *targetbuf, MPI_Count targetcount, MPI_Datatype targettype);

/* As MPIT_Type_transpack, for `bytes` bytes from stream byte `sourcestart` of the source to stream byte
 * `targetstart` of the target. The streams may have different lengths. */
int MPIT_Type_transpack_range(const void *sourcebuf, MPI_Count sourcecount, MPI_Datatype sourcetype,
                              MPI_Offset sourcestart, void *targetbuf, MPI_Count targetcount,
                              MPI_Datatype targettype, MPI_Offset targetstart, MPI_Offset bytes);

/* Writes a datatype to memory as a message that can be sent or stored. The message of a datatype without
 * lists has some tens of bytes. It is the same on every machine and with every MPI. *bytesp: the number of
 * bytes of the message. If buf is null and bufbytes is 0, only *bytesp is set. Otherwise MPI_ERR_ARG if the
 * message has more than bufbytes bytes; *bytesp is set then, too. */
int MPIT_Type_serialize(MPI_Datatype type, void *buf, MPI_Aint bufbytes, MPI_Aint *bytesp);

/* Builds a datatype from a message of exactly `bytes` bytes. The new datatype has the same constructors (a
 * predefined datatype is duplicated), the same type map and the same bounds. It is committed and initialized.
 * The caller frees it with MPI_Type_free. The message may come from an untrusted sender: data that is not a
 * message, or a message that was changed, is MPI_ERR_TYPE. MPI_ERR_COUNT if this MPI cannot express a count
 * of the datatype. (A datatype can need a thousand times the memory of its message: limit the length of
 * messages from untrusted senders.) */
int MPIT_Type_deserialize(const void *buf, MPI_Aint bytes, MPI_Datatype *newtype);

/* Converts elements between a typed buffer and their representation in a netCDF file, in one pass: the byte
 * order and the type of the numbers. All elements of the datatype must have one basic type. The buffers must
 * not overlap.
 *   ncbuf, ncbytes  the data of the file, from element `start` on, and the size of this memory in bytes
 *   nctype          the type in the file: NC_BYTE (1) to NC_UINT64 (11) of netcdf.h
 *   ncformat        the version of the file format, which determines the available types: 1, 2 or 5
 *   direction       MPIT_MEMCPY_FROM_USERBUF to encode, MPIT_MEMCPY_TO_USERBUF to decode
 *   start, end      the range of elements to convert, counted in the order of the type map over all `count`
 *   rangep, firstp  the number of elements of the range that the other type cannot hold, and the index of the
 *                   first such element (-1 if none). Both may be null.
 * If elements are out of range (NC_ERANGE), all elements are converted nevertheless, as in netCDF, and the
 * elements out of range get the values that netCDF-C gives them. The function then returns
 * MPI_ERR_CONVERSION. MPI_ERR_TYPE if the datatype has several basic types, or a basic type that does not
 * convert to nctype (text and numbers do not convert to each other). */
int MPIT_Type_netcdf_translate(void *typebuf, MPI_Count count, MPI_Datatype type, void *ncbuf,
                               MPI_Count ncbytes, int nctype, int ncformat, int direction, MPI_Count start,
                               MPI_Count end, MPI_Count *rangep, MPI_Count *firstp);

/* Prints the constructors and the properties of the datatype on standard error. */
int MPIT_Type_debug(MPI_Datatype type);

/* ---- Toolkit functions: segments ---------------------------------------------------------------------- */

/* A segment: the state of MPIT_Segment_manipulate for one typed buffer. */
typedef struct MPIT_Segment MPIT_Segment;

/* Leaf functions process a part of the data, called a leaf. All elements of a leaf have one basic type.
 *
 *   blocks_p   on entry the number of elements in the leaf, on return the number of elements that the
 *              function has processed
 *   el_type    the type of the elements, a predefined datatype
 *   rel_off    the offset of the leaf in bytes, relative to the buffer
 *   bufp       the buffer that was passed to MPIT_Segment_init
 *   v_paramp   the parameters that were passed to MPIT_Segment_manipulate
 *
 * Leaves come in the order of the stream. Together they are exactly the range. If a function returns a value
 * other than 0, the processing ends after the elements that the function has reported as processed. If a
 * function returns 0 and has processed a part of the leaf, it is called again for the rest. If it returns 0
 * and has processed nothing, the processing ends. A part of an element at an end of the range has the type
 * MPI_BYTE. So have elements for which this MPI has no predefined datatype.
 *
 * A leaf function must return: it must not throw an exception or leave by longjmp. It may call any function
 * of this header, except those on the segment that called it. The lists are valid only during the call. */

/* contig: consecutive elements. */
typedef int (*MPIT_Contig_function)(MPI_Aint *blocks_p, MPI_Datatype el_type, MPI_Aint rel_off, void *bufp,
                                    void *v_paramp);

/* vector: `count` blocks of `blklen` elements each. The beginnings of consecutive blocks are `stride` bytes
 * apart. */
typedef int (*MPIT_Vector_function)(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen, MPI_Aint stride,
                                    MPI_Datatype el_type, MPI_Aint rel_off, void *bufp, void *v_paramp);

/* block indexed: `count` blocks of `blklen` elements each. Block i begins `offsetarray[i]` bytes after
 * rel_off. */
typedef int (*MPIT_Blkidx_function)(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen,
                                    const MPI_Aint *offsetarray, MPI_Datatype el_type, MPI_Aint rel_off,
                                    void *bufp, void *v_paramp);

/* indexed: `count` blocks. Block i has `blockarray[i]` elements and begins `offsetarray[i]` bytes after
 * rel_off. */
typedef int (*MPIT_Index_function)(MPI_Aint *blocks_p, MPI_Aint count, const MPI_Aint *blockarray,
                                   const MPI_Aint *offsetarray, MPI_Datatype el_type, MPI_Aint rel_off,
                                   void *bufp, void *v_paramp);

/* The number of bytes that an element takes in the output of the leaf functions. It must be positive. */
typedef MPI_Aint (*MPIT_Size_function)(MPI_Datatype el_type);

/* As *end of MPIT_Segment_manipulate: the end of the stream. */
#define MPIT_SEGMENT_ALL ((MPI_Aint)-1)

/* Creates a segment. Returns null if there is not enough memory. The caller frees the segment with
 * MPIT_Segment_free. */
MPIT_Segment *MPIT_Segment_alloc(void);

/* Initializes a segment for (buf, count, type). buf may be null: it is only passed to the leaf functions. The
 * datatype may be freed while the segment is in use. flag: must be 0. A segment can be initialized again. */
int MPIT_Segment_init(const void *buf, int count, MPI_Datatype type, MPIT_Segment *seg, int flag);
int MPIT_Segment_init_c(const void *buf, MPI_Count count, MPI_Datatype type, MPIT_Segment *seg, int flag);

/* Frees a segment. */
int MPIT_Segment_free(MPIT_Segment *seg);

/* Calls leaf functions for stream bytes start..*end. Of the four leaf functions only contigfn is required.
 * If another one is null, contigfn is called for each of its blocks. sizefn is null, or returns the size of
 * each basic type in the output of the leaf functions, for leaf functions that convert. With a sizefn,
 * start and *end count bytes of that output, and must lie between elements. On return *end is the position
 * after the last processed element. MPI_SUCCESS if that is the end of the range, or if a leaf function
 * ended the processing. MPI_ERR_OTHER if the stream ended before the range. MPI_ERR_ARG if a leaf function
 * reports a negative number of elements, or more than its leaf has. A range may begin anywhere, and ranges
 * may be processed in any order. A start at the previous end is not cheaper than another start; both are
 * cheap. */
int MPIT_Segment_manipulate(MPIT_Segment *seg, MPI_Aint start, MPI_Aint *end, MPIT_Contig_function contigfn,
                            MPIT_Vector_function vectorfn, MPIT_Blkidx_function blkidxfn,
                            MPIT_Index_function indexfn, MPIT_Size_function sizefn, void *pieceparams);

#ifdef __cplusplus
}
#endif

#endif
