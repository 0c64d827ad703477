/* capulet_types.h - MPI datatypes outside of MPI: the MPITypes toolkit, as built by Capulet.
 *
 * Copies, flattens, counts, walks, converts and serializes the data that an MPI datatype describes. The names and the
 * meaning are those of MPITypes (Ross, Latham, Gropp, Lusk and Thakur, "Processing MPI Datatypes Outside MPI", 2009).
 * The functions are in libcapulet_<mpi>.so, one library for each MPI.
 *
 * THE STREAM. A buffer is (base, count, datatype), as in MPI. The bytes of its data, in the order of the type map, are
 * the *stream*: what MPI_Pack would write. Ranges are stream bytes: `start` is the first byte, `end` is the byte behind
 * the last one. A range may begin and end anywhere, also inside a basic element.
 *
 * TYPES. A derived datatype must be committed, and initialized once with MPIT_Type_init. What is computed from it then
 * stays with it as an attribute: it is inherited by duplicates (MPI_Type_dup) and goes when MPI frees the type.
 * Predefined datatypes, datatypes that MPIT_Type_deserialize made, and those that an MPI_File_ function of Capulet has
 * seen, need no initialization.
 *
 * ERRORS. Every function returns MPI_SUCCESS or an MPI error class. No error handler is called, nothing is aborted, and
 * nothing is written when an argument is wrong.
 *   MPI_ERR_TYPE    the datatype is MPI_DATATYPE_NULL, not committed, not initialized, or cannot be described
 *   MPI_ERR_ARG     another argument is wrong: a null pointer, a negative count, a range that begins below 0 or behind
 *                   its end, memory that is too small
 *   MPI_ERR_OTHER   not everything was processed: the stream, or the caller's array, ended before the range did. What
 *                   there was has been processed. Also: MPI is not initialized, or is finalized.
 *   MPI_ERR_COUNT, MPI_ERR_CONVERSION   where a function says so
 *   MPI_ERR_NO_MEM  out of memory
 *   MPI_ERR_INTERN  a bug in Capulet
 *
 * THREADS. Any thread that may call MPI may call these functions, on the same datatypes too. A segment is used by one
 * thread at a time. With MPI_THREAD_SERIALIZED and below, calls are subject to the rules of that level, like MPI's own.
 */
#ifndef CAPULET_TYPES_H
#define CAPULET_TYPES_H

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number of bytes or elements in the callbacks of a segment. */
typedef MPI_Aint MPIT_Offset;

/* ---- Basic functions ------------------------------------------------------------------------------------------- */

/* Prepares a committed datatype. Local. Idempotent, and cheap after the first time. */
int MPIT_Type_init(MPI_Datatype type);

/* 1 if the datatype can be used with the functions below, else 0. */
int MPIT_Type_is_initialized(MPI_Datatype type);

/* The directions of MPIT_Type_memcpy. */
#define MPIT_MEMCPY_TO_USERBUF 0
#define MPIT_MEMCPY_FROM_USERBUF 1

/* Copies the stream bytes start..end between a typed buffer and contiguous memory, whose first byte is stream byte
 * `start`. The two must not overlap. No byte outside of the range is written. */
int MPIT_Type_memcpy(void *typebuf, int count, MPI_Datatype type, void *streambuf, int direction, MPI_Offset start,
                     MPI_Offset end);
int MPIT_Type_memcpy_c(void *typebuf, MPI_Count count, MPI_Datatype type, void *streambuf, int direction,
                       MPI_Offset start, MPI_Offset end);

/* Lists the contiguous regions that hold stream bytes start..end, in the order of the stream; regions that touch are
 * one. disps: where each begins, as an address (typebuf, which may be null, plus the displacement); blocklens: the bytes
 * of each. *lengthp: on entry the length of both arrays, on return the number of regions listed. MPI_ERR_OTHER if there
 * are more: the rest begins at `start` plus the sum of blocklens. A region longer than an int can say is listed in parts
 * of 1 GiB; MPIT_Type_flatten_c has no such limit. */
int MPIT_Type_flatten(void *typebuf, int count, MPI_Datatype type, MPI_Offset start, MPI_Offset end, MPI_Aint *disps,
                      int *blocklens, int *lengthp);
int MPIT_Type_flatten_c(void *typebuf, MPI_Count count, MPI_Datatype type, MPI_Offset start, MPI_Offset end,
                        MPI_Aint *disps, MPI_Count *blocklens, MPI_Count *lengthp);

/* Counts the contiguous regions that hold stream bytes start..end. */
int MPIT_Type_blockct(int count, MPI_Datatype type, MPI_Offset start, MPI_Offset end, MPI_Aint *blocksp);
int MPIT_Type_blockct_c(MPI_Count count, MPI_Datatype type, MPI_Offset start, MPI_Offset end, MPI_Count *blocksp);

/* Copies all data of one typed buffer to another, in one step: the first byte of the one stream to the first byte of the
 * other, and so on. Bytes have no type here: nothing is converted, and the basic elements need not be the same. Both
 * streams must be of one length (MPI_ERR_ARG). As with MPI, the buffers must not overlap, nor the target type itself. */
int MPIT_Type_transpack(const void *sourcebuf, MPI_Count sourcecount, MPI_Datatype sourcetype, void *targetbuf,
                        MPI_Count targetcount, MPI_Datatype targettype);

/* The same for `bytes` bytes, from stream byte `sourcestart` of the one to stream byte `targetstart` of the other. The
 * streams may differ in length. */
int MPIT_Type_transpack_range(const void *sourcebuf, MPI_Count sourcecount, MPI_Datatype sourcetype,
                              MPI_Offset sourcestart, void *targetbuf, MPI_Count targetcount, MPI_Datatype targettype,
                              MPI_Offset targetstart, MPI_Offset bytes);

/* Writes a datatype to memory, so that it can be sent or stored: some tens of bytes for types without lists, the same on
 * every machine and every MPI. *bytesp: the bytes of the message. With a null buf and 0 bufbytes nothing else happens;
 * otherwise MPI_ERR_ARG if that is more than bufbytes. */
int MPIT_Type_serialize(MPI_Datatype type, void *buf, MPI_Aint bufbytes, MPI_Aint *bytesp);

/* Makes a datatype from such a message of exactly `bytes` bytes: of the same constructors (a predefined datatype is
 * duplicated), with the same type map and bounds; committed and initialized. To be freed with MPI_Type_free. A message may
 * come from anyone: what is not one, or has been changed, is MPI_ERR_TYPE. MPI_ERR_COUNT if this MPI cannot express a
 * count of it. (The type can be a thousand times as large as its message: limit the length of what strangers send.) */
int MPIT_Type_deserialize(const void *buf, MPI_Aint bytes, MPI_Datatype *newtype);

/* Converts elements between a typed buffer and the form that they have in a netCDF file: byte order, and the type of the
 * numbers, in one pass. The elements of the datatype must be of one basic type.
 *   ncbuf, ncbytes  the data of the file, from element `start` on, and the room there
 *   nctype          the type in the file: NC_BYTE (1) to NC_UINT64 (11) of netcdf.h
 *   ncformat        the version of the file format, which decides on the types that there are: 1, 2 or 5
 *   direction       MPIT_MEMCPY_FROM_USERBUF to encode, MPIT_MEMCPY_TO_USERBUF to decode
 *   start, end      the elements to convert, counted in the order of the type map over all `count`
 *   rangep, firstp  how many of these the other type cannot hold, and the first such element (-1 if none); may be null
 * As with netCDF, where elements are out of range (NC_ERANGE) all the same all are converted, those to what netCDF-C makes
 * of them; it is reported by MPI_ERR_CONVERSION. MPI_ERR_TYPE if the datatype is of several basic types, or of one that
 * does not convert to nctype (text and numbers do not). */
int MPIT_Type_netcdf_translate(void *typebuf, MPI_Count count, MPI_Datatype type, void *ncbuf, MPI_Count ncbytes,
                               int nctype, int ncformat, int direction, MPI_Count start, MPI_Count end,
                               MPI_Count *rangep, MPI_Count *firstp);

/* Prints on standard error how the datatype was made, and what is known about it. */
int MPIT_Type_debug(MPI_Datatype type);

/* ---- Toolkit functions: segments ------------------------------------------------------------------------------- */

/* A typed buffer being processed: the state of MPIT_Segment_manipulate. */
typedef struct MPIT_Segment MPIT_Segment;

/* Leaf functions: what is done with a part of the data. The data of a leaf are elements of one basic type.
 *
 *   blocks_p   on entry the number of elements in the leaf; on return the number that the function has done
 *   el_type    the type of the elements, a predefined datatype
 *   rel_off    where the leaf begins, in bytes from the buffer
 *   bufp       the buffer that MPIT_Segment_init was given
 *   v_paramp   the parameters that MPIT_Segment_manipulate was given
 *
 * Leaves come in the order of the stream, and together they are exactly the range. A function that returns something
 * other than 0 ends the processing behind the elements that it says it has done; one that returns 0 is called for the rest
 * if it has done a part, and ends the processing if it has done nothing. Parts of an element that the range cuts come as
 * MPI_BYTE, as does what this MPI has no predefined datatype for.
 *
 * A leaf function must return: it must not throw, nor leave by longjmp. It may call any function here, but for those on
 * the segment that called it. The lists are only valid during the call. */

/* contig: consecutive elements. */
typedef int (*MPIT_Contig_function)(MPI_Aint *blocks_p, MPI_Datatype el_type, MPI_Aint rel_off, void *bufp,
                                    void *v_paramp);

/* vector: `count` blocks of `blklen` elements each, `stride` bytes from the beginning of one to that of the next. */
typedef int (*MPIT_Vector_function)(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen, MPI_Aint stride,
                                    MPI_Datatype el_type, MPI_Aint rel_off, void *bufp, void *v_paramp);

/* block indexed: `count` blocks of `blklen` elements each, block i `offsetarray[i]` bytes behind rel_off. */
typedef int (*MPIT_Blkidx_function)(MPI_Aint *blocks_p, MPI_Aint count, MPI_Aint blklen, const MPI_Aint *offsetarray,
                                    MPI_Datatype el_type, MPI_Aint rel_off, void *bufp, void *v_paramp);

/* indexed: `count` blocks, block i of `blockarray[i]` elements, `offsetarray[i]` bytes behind rel_off. */
typedef int (*MPIT_Index_function)(MPI_Aint *blocks_p, MPI_Aint count, const MPI_Aint *blockarray,
                                   const MPI_Aint *offsetarray, MPI_Datatype el_type, MPI_Aint rel_off, void *bufp,
                                   void *v_paramp);

/* The bytes that an element takes in what leaf functions write: positive. */
typedef MPI_Aint (*MPIT_Size_function)(MPI_Datatype el_type);

/* As *end: the end of the stream. */
#define MPIT_SEGMENT_ALL ((MPI_Aint)-1)

/* A new segment; null if there is no memory for it. To be freed with MPIT_Segment_free. */
MPIT_Segment *MPIT_Segment_alloc(void);

/* Puts a segment at the start of (buf, count, type). buf may be null: leaf functions get it, nothing else looks at it.
 * The datatype may be freed while the segment is in use. flag: 0. A segment can be initialized again. */
int MPIT_Segment_init(const void *buf, int count, MPI_Datatype type, MPIT_Segment *seg, int flag);
int MPIT_Segment_init_c(const void *buf, MPI_Count count, MPI_Datatype type, MPIT_Segment *seg, int flag);

/* Frees a segment. */
int MPIT_Segment_free(MPIT_Segment *seg);

/* Calls leaf functions for stream bytes start..*end. Of the four functions only contigfn is needed; where another is null,
 * contigfn is called once for each block. sizefn is null, or gives the size of each basic type in what the leaf functions
 * write, for functions that convert: then start and *end count in those sizes, and must lie between elements.
 * On return *end is the position behind what was done. MPI_SUCCESS if that is the end of the range, or if a leaf function
 * ended the processing; MPI_ERR_OTHER if the stream ended before the range. A range may begin anywhere, in whatever order
 * ranges are processed; going on where the last one ended is not cheaper than starting elsewhere, which is cheap. */
int MPIT_Segment_manipulate(MPIT_Segment *seg, MPI_Aint start, MPI_Aint *end, MPIT_Contig_function contigfn,
                            MPIT_Vector_function vectorfn, MPIT_Blkidx_function blkidxfn, MPIT_Index_function indexfn,
                            MPIT_Size_function sizefn, void *pieceparams);

#ifdef __cplusplus
}
#endif

#endif
