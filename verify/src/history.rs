//! The history of a round, as the program records it: the accesses, and the values that they read. In
//! words of 32 bits.

use std::collections::BTreeMap;
use std::fmt;

/// The first word of each access.
const MAGIC: u32 = 0x4350_4C54;
const HEAD_WORDS: usize = 8;
/// More than the number of accesses of a rank in a round. The last one of rank 0 is the final read of the
/// whole file.
pub const ACCESSES_MAX: u32 = 60;
/// More than the number of cells of a file.
const CELLS_MAX: u32 = 1 << 20;
/// The writer of the cells as they were at the start of the round.
pub const NOBODY: u32 = 0;
/// The writer of a value that no access of the round has written to that cell as a whole.
pub const STRANGE: u32 = u32::MAX;
/// The names of the calls by their numbers, for reads and for writes.
const CALLS: [[&str; 2]; 8] = [
    ["read_at", "write_at"],
    ["read", "write"],
    ["read_at_all", "write_at_all"],
    ["read_all", "write_all"],
    ["iread_at", "iwrite_at"],
    ["iread_at_all", "iwrite_at_all"],
    ["read_shared", "write_shared"],
    ["read_ordered", "write_ordered"],
];

/// Consecutive cells with one writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first cell.
    pub start: u32,
    /// The number of cells.
    pub cells: u32,
    /// Of a read: the access that wrote the cells. Of a write: this access.
    pub writer: u32,
}

/// One access of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The rank that made the access.
    pub rank: u32,
    /// The number of the access among the rank's accesses of the round.
    pub index: u32,
    /// The number of the rank's accesses that were complete before this one began.
    pub group: u32,
    /// Whether it is a write.
    pub writes: bool,
    /// The number of the MPI call.
    pub call: u32,
    /// The cells that the access touched.
    pub runs: Vec<Run>,
}

impl Access {
    /// The number by which the cells of a write name their writer.
    pub fn writer(&self) -> u32 {
        self.rank * ACCESSES_MAX + self.index + 1
    }

    /// Whether this is the final read of the whole file.
    fn is_last(&self) -> bool {
        self.index == ACCESSES_MAX - 1
    }
}

impl fmt::Display for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_last() {
            return formatter.write_str("the final read of the file");
        }
        let call = CALLS.get(self.call as usize).map_or("?", |names| names[usize::from(self.writes)]);
        let Self { rank, index, .. } = self;
        write!(formatter, "MPI_File_{call} of rank {rank} (access {index})")
    }
}

/// A round: the accesses between two known states of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// The accesses of all ranks.
    pub accesses: Vec<Access>,
    /// The final read of the whole file.
    pub last: Option<Access>,
}

/// The error of bytes that are no history.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the history of rank {rank} is malformed at word {word}: {why}")]
pub struct Malformed {
    /// The rank of the history.
    pub rank: usize,
    /// The number of the word.
    pub word: usize,
    /// The reason.
    pub why: &'static str,
}

/// Decodes the histories of all ranks, one for each rank, into rounds by number.
///
/// # Errors
/// [`Malformed`] if one of them has another form than the program writes.
pub fn read(ranks: &[Vec<u8>]) -> Result<BTreeMap<u32, Round>, Malformed> {
    let mut rounds: BTreeMap<u32, Round> = BTreeMap::new();
    for (rank, bytes) in ranks.iter().enumerate() {
        let (words, rest) = bytes.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        let malformed = |word, why| Malformed { rank, word, why };
        if !rest.is_empty() {
            return Err(malformed(words.len(), "it ends within a word"));
        }
        let mut at = 0;
        while at < words.len() {
            let (number, access, used) = one(rank, &words[at..]).map_err(|why| malformed(at, why))?;
            at += used;
            let round = rounds.entry(number).or_default();
            if access.is_last() {
                round.last = Some(access);
            } else {
                round.accesses.push(access);
            }
        }
    }
    Ok(rounds)
}

/// Decodes the access at the start of `words`: the number of its round, the access, and its number of
/// words.
fn one(rank: usize, words: &[u32]) -> Result<(u32, Access, usize), &'static str> {
    let head: [u32; HEAD_WORDS] = words
        .get(..HEAD_WORDS)
        .and_then(|head| head.try_into().ok())
        .ok_or("it ends within the head of an access")?;
    let [magic, round, of, index, group, kind, call, count] = head;
    if magic != MAGIC {
        return Err("an access does not begin with its magic number");
    }
    if of as usize != rank || index >= ACCESSES_MAX || kind > u32::from(index < ACCESSES_MAX - 1) {
        return Err("a value in the head of an access is out of range");
    }
    let end = (count as usize).checked_mul(3).and_then(|words| words.checked_add(HEAD_WORDS));
    let run_words =
        end.and_then(|end| words.get(HEAD_WORDS..end)).ok_or("it ends within the runs of an access")?;
    let runs = run_words.as_chunks::<3>().0.iter();
    if runs.clone().any(|&[start, cells, _]| start.max(cells) > CELLS_MAX) {
        return Err("a cell lies beyond the largest file");
    }
    let runs = runs.map(|&[start, cells, writer]| Run { start, cells, writer }).collect();
    let access = Access { rank: of, index, group, writes: kind == 1, call, runs };
    Ok((round, access, HEAD_WORDS + run_words.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn accesses_are_sorted_into_rounds() {
        let first = [MAGIC, 7, 0, 0, 0, 1, 0, 2, 5, 3, 1, 10, 2, 1];
        let last = [MAGIC, 7, 0, ACCESSES_MAX - 1, 9, 0, 0, 1, 0, 20, NOBODY];
        let other = [MAGIC, 8, 1, 2, 1, 0, 3, 0];
        let rounds =
            read(&[bytes(&[&first[..], &last].concat()), bytes(&other)]).expect("a well-formed history");
        assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), [7, 8]);
        assert_eq!(rounds[&7].accesses[0].runs[1], Run { start: 10, cells: 2, writer: 1 });
        assert_eq!(rounds[&7].last.as_ref().map(|last| last.runs.len()), Some(1));
        assert_eq!(rounds[&8].accesses[0].to_string(), "MPI_File_read_all of rank 1 (access 2)");
    }

    #[test]
    fn malformed_histories_are_refused() {
        for words in [
            &[1, 2, 3][..],
            &[0; 8],
            &[MAGIC, 0, 1, 0, 0, 0, 0, 0],
            &[MAGIC, 0, 0, 99, 0, 0, 0, 0],
            &[MAGIC, 0, 0, ACCESSES_MAX - 1, 0, 1, 0, 0],
            &[MAGIC, 0, 0, 0, 0, 0, 0, 2, 1, 1, 1],
            &[MAGIC, 0, 0, 0, 0, 0, 0, u32::MAX],
            &[MAGIC, 0, 0, 0, 0, 0, 0, 1, u32::MAX, 1, 1],
        ] {
            assert!(read(&[bytes(words)]).is_err(), "{words:?}");
        }
        assert!(read(&[vec![1, 2, 3]]).is_err());
    }
}
