/* The bytes of a file, as a function of the offset. */
#include "bench_io.h"

#include <string.h>

#define WORD_BYTES 8
#define HIGH_BITS UINT64_C(0x8080808080808080)

/* The words differ from each other, so that a byte in the wrong place is noticed. The high bits
 * distinguish them from the bytes that were there before. */
static uint64_t word_at(int64_t index)
{
    uint64_t word = ((uint64_t)index + 1) * UINT64_C(0x9E3779B97F4A7C15);
    return (word ^ (word >> 29)) | HIGH_BITS;
}

/* Runs `body` for each word that the range touches: the `part` bytes of word number `index` from its byte
 * `first` on. */
#define FOR_WORDS(offset, bytes, body)                                                   \
    for (int64_t at_ = 0; at_ < (bytes);) {                                              \
        const int64_t index = ((offset) + at_) / WORD_BYTES, first = ((offset) + at_) % WORD_BYTES; \
        int64_t part = WORD_BYTES - first;                                               \
        if (part > (bytes) - at_) part = (bytes) - at_;                                  \
        const uint64_t word = word_at(index);                                            \
        body;                                                                            \
        at_ += part;                                                                     \
    }

void fill_cells(unsigned char *memory, int64_t offset, int64_t bytes)
{
    if (offset % WORD_BYTES == 0) {
        for (; bytes >= WORD_BYTES; offset += WORD_BYTES, bytes -= WORD_BYTES, memory += WORD_BYTES) {
            const uint64_t word = word_at(offset / WORD_BYTES);
            memcpy(memory, &word, WORD_BYTES);
        }
    }
    FOR_WORDS(offset, bytes, memcpy(memory + at_, (const unsigned char *)&word + first, (size_t)part))
}

bool are_cells(const unsigned char *memory, int64_t offset, int64_t bytes)
{
    uint64_t difference = 0;
    if (offset % WORD_BYTES == 0) {
        for (; bytes >= WORD_BYTES; offset += WORD_BYTES, bytes -= WORD_BYTES, memory += WORD_BYTES) {
            uint64_t found;
            memcpy(&found, memory, WORD_BYTES);
            difference |= found ^ word_at(offset / WORD_BYTES);
        }
    }
    if (difference != 0) return false;
    FOR_WORDS(offset, bytes, if (memcmp(memory + at_, (const unsigned char *)&word + first, (size_t)part) != 0) return false)
    return true;
}

int64_t count_cells(const unsigned char *memory, int64_t bytes, unsigned char hole, int64_t *strangers)
{
    int64_t cells = 0, holes = 0;
    for (int64_t at = 0; at < bytes; at++) {
        cells += memory[at] >> 7;
        holes += memory[at] == hole;
    }
    *strangers = bytes - cells - holes;
    return cells;
}

uint64_t hash_of(const unsigned char *memory, int64_t bytes)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ (uint64_t)bytes;
    for (; bytes > 0; memory += WORD_BYTES, bytes -= WORD_BYTES) {
        uint64_t word = 0;
        memcpy(&word, memory, (size_t)(bytes < WORD_BYTES ? bytes : WORD_BYTES));
        hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
        hash ^= hash >> 32;
    }
    return hash;
}
