//! The lengths of listed blocks, in no more bytes than they need. Most lists have one common length, or
//! short lengths.

/// Lengths of blocks in elements, in the order of their list. As many entries as the list, and immutable.
///
/// ```
/// use capulet_datatype::{Combiner, Datatype, Named};
/// let float = Datatype::named(Named::Float);
/// let type_ = Datatype::indexed(&[2, 3], &[0, 8], &float)?;
/// let Combiner::Indexed { blocklengths, .. } = type_.combiner() else { unreachable!() };
/// assert_eq!(blocklengths.iter().collect::<Vec<_>>(), [2, 3]);
/// # Ok::<(), capulet_datatype::TypeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths(Form);

/// The representation is the first variant that can hold the lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Equal { n: usize, length: u64 },
    Bytes(Box<[u8]>),
    Words(Box<[u32]>),
    Wide(Box<[u64]>),
}

impl From<&[u64]> for Lengths {
    fn from(list: &[u64]) -> Self {
        let first = list.first().copied().unwrap_or(0);
        // The loop has no early exit, so that it is vectorized.
        let (bits, differing) = list
            .iter()
            .fold((0, 0), |(bits, differing), &length| (bits | length, differing | length ^ first));
        Self(if differing == 0 {
            Form::Equal { n: list.len(), length: first }
        } else if bits <= u8::MAX.into() {
            Form::Bytes(list.iter().map(|&length| length as u8).collect())
        } else if bits <= u32::MAX.into() {
            Form::Words(list.iter().map(|&length| length as u32).collect())
        } else {
            Form::Wide(list.into())
        })
    }
}

impl Lengths {
    /// The number of lengths.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Equal { n, .. } => *n,
            Form::Bytes(list) => list.len(),
            Form::Words(list) => list.len(),
            Form::Wide(list) => list.len(),
        }
    }

    /// Whether there is no length.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The length of block `block`; 0 if there is no such block.
    #[must_use]
    pub fn get(&self, block: usize) -> u64 {
        match &self.0 {
            Form::Equal { n, length } => {
                if block < *n {
                    *length
                } else {
                    0
                }
            }
            Form::Bytes(list) => list.get(block).copied().unwrap_or(0).into(),
            Form::Words(list) => list.get(block).copied().unwrap_or(0).into(),
            Form::Wide(list) => list.get(block).copied().unwrap_or(0),
        }
    }

    /// All lengths, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + Clone {
        (0..self.len()).map(|block| self.get(block))
    }

    pub(crate) fn form(&self) -> &Form {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Lengths;

    #[test]
    fn lengths_survive_a_round_trip() {
        let lists: [&[u64]; 9] = [
            &[],
            &[0],
            &[7, 7, 7],
            &[u64::MAX; 3],
            &[0, 255],
            &[256, 0, 1],
            &[1, 0xFFFF_FFFF],
            &[1, 1 << 32],
            &[u64::MAX, 0],
        ];
        for list in lists {
            let kept = Lengths::from(list);
            assert_eq!(kept.iter().collect::<Vec<_>>(), list);
            assert_eq!((kept.len(), kept.is_empty(), kept.get(list.len())), (list.len(), list.is_empty(), 0));
        }
    }
}
