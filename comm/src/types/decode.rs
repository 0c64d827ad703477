//! Converts the arguments of an MPI constructor into a description. Makes no MPI call.
//!
//! A type reports its numbers in lists of `int`s and addresses, or, if it was made with large counts, of
//! `int`s and counts. In both conventions each list is read once from front to back, in the order of the
//! constructor's arguments. The conventions differ only in the list that a number comes from, so one reader
//! serves both.

use std::ffi::c_int;

use capulet_datatype::{ArrayOrder, Combiner, Datatype, Distribution};

use crate::class::ErrorClass;
use crate::error::{Error, Result};
use crate::types::envelope::Constructor;
use crate::{consts, ffi};

/// The numbers of a type's contents.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) integers: Vec<c_int>,
    pub(super) addresses: Vec<i64>,
    /// Nonempty exactly if the type was made with large counts.
    pub(super) counts: Vec<ffi::MPI_Count>,
}

struct Reader<'a> {
    integers: &'a [c_int],
    addresses: &'a [i64],
    counts: &'a [ffi::MPI_Count],
    large: bool,
}

fn short() -> Error {
    Error::invalid(ErrorClass::Type, "the contents of a datatype are too short for its constructor")
}

fn take<T: Copy>(list: &mut &[T]) -> Result<T> {
    let (first, rest) = list.split_first().ok_or_else(short)?;
    *list = rest;
    Ok(*first)
}

fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::invalid(ErrorClass::Type, "a negative count in a datatype"))
}

impl<'a> Reader<'a> {
    fn new(arguments: &'a Arguments) -> Self {
        Reader {
            integers: &arguments.integers,
            addresses: &arguments.addresses,
            counts: &arguments.counts,
            large: !arguments.counts.is_empty(),
        }
    }

    /// An argument that is an `int` in both conventions.
    fn int(&mut self) -> Result<c_int> {
        take(&mut self.integers)
    }

    /// An argument that is an `int` or a large count, depending on the convention: a count, a block length,
    /// or a displacement in extents.
    fn number(&mut self) -> Result<i64> {
        if self.large { take(&mut self.counts) } else { self.int().map(i64::from) }
    }

    /// A displacement or stride in bytes: an address or a large count, depending on the convention.
    fn address(&mut self) -> Result<i64> {
        if self.large { take(&mut self.counts) } else { take(&mut self.addresses) }
    }

    fn count(&mut self) -> Result<u64> {
        unsigned(self.number()?)
    }

    /// The length of lists that follow in the arguments.
    fn length(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| short())
    }

    fn numbers(&mut self, length: usize) -> Result<Vec<i64>> {
        (0..length).map(|_| self.number()).collect()
    }

    fn counts(&mut self, length: usize) -> Result<Vec<u64>> {
        (0..length).map(|_| self.count()).collect()
    }

    fn addresses(&mut self, length: usize) -> Result<Vec<i64>> {
        (0..length).map(|_| self.address()).collect()
    }

    fn ints(&mut self, length: usize) -> Result<Vec<c_int>> {
        (0..length).map(|_| self.int()).collect()
    }

    fn order(&mut self) -> Result<ArrayOrder> {
        let order = self.int()?;
        if order == consts::order_c() {
            Ok(ArrayOrder::C)
        } else if order == consts::order_fortran() {
            Ok(ArrayOrder::Fortran)
        } else {
            Err(Error::invalid(ErrorClass::Type, "an array with an unknown order"))
        }
    }
}

/// The description of a type with this constructor, these arguments and these parts. The caller does not
/// pass `Named` or the Fortran kinds, because these are described without their arguments.
pub(super) fn decode(
    constructor: Constructor,
    arguments: &Arguments,
    children: &[Datatype],
) -> Result<Datatype> {
    use Constructor as C;
    let mut read = Reader::new(arguments);
    // A struct without fields has no part. An empty struct stands for the missing part.
    let nothing;
    let old = match children.first() {
        Some(old) => old,
        None if matches!(constructor, C::Struct | C::StructInteger) => {
            nothing = Datatype::structure(&[], &[], &[])?;
            &nothing
        }
        None => return Err(short()),
    };
    let built = match constructor {
        C::Dup => Datatype::dup(old),
        C::Contiguous => Datatype::contiguous(read.count()?, old),
        C::Vector => Datatype::vector(read.count()?, read.count()?, read.number()?, old),
        C::Hvector => Datatype::hvector(read.count()?, read.count()?, read.address()?, old),
        C::HvectorInteger => Datatype::hvector(read.count()?, read.count()?, read.number()?, old),
        C::Indexed => {
            let length = read.length()?;
            Datatype::indexed(&read.counts(length)?, &read.numbers(length)?, old)
        }
        C::Hindexed => {
            let length = read.length()?;
            Datatype::hindexed(&read.counts(length)?, &read.addresses(length)?, old)
        }
        C::HindexedInteger => {
            let length = read.length()?;
            Datatype::hindexed(&read.counts(length)?, &read.numbers(length)?, old)
        }
        C::IndexedBlock => {
            let length = read.length()?;
            Datatype::indexed_block(read.count()?, &read.numbers(length)?, old)
        }
        C::HindexedBlock => {
            let length = read.length()?;
            Datatype::hindexed_block(read.count()?, &read.addresses(length)?, old)
        }
        C::Struct => {
            let length = read.length()?;
            Datatype::structure(&read.counts(length)?, &read.addresses(length)?, children)
        }
        C::StructInteger => {
            let length = read.length()?;
            Datatype::structure(&read.counts(length)?, &read.numbers(length)?, children)
        }
        C::Subarray => return subarray(&mut read, old),
        C::Darray => return darray(&mut read, old),
        C::Resized => Datatype::resized(read.address()?, read.address()?, old),
        C::ValueIndex => return value_index(old, children.get(1).ok_or_else(short)?),
        C::Named | C::F90Integer | C::F90Real | C::F90Complex => return Err(short()),
    };
    Ok(built?)
}

fn subarray(read: &mut Reader<'_>, old: &Datatype) -> Result<Datatype> {
    let dims = usize::try_from(read.int()?).map_err(|_| short())?;
    let (sizes, subsizes, starts) = (read.counts(dims)?, read.counts(dims)?, read.counts(dims)?);
    Ok(Datatype::subarray(&sizes, &subsizes, &starts, read.order()?, old)?)
}

fn darray(read: &mut Reader<'_>, old: &Datatype) -> Result<Datatype> {
    let (_processes, rank) = (read.int()?, unsigned(read.int()?.into())?);
    let dims = usize::try_from(read.int()?).map_err(|_| short())?;
    let gsizes = read.counts(dims)?;
    let (kinds, blocks, psizes) = (read.ints(dims)?, read.ints(dims)?, read.ints(dims)?);
    let distributions = kinds
        .into_iter()
        .zip(blocks)
        .map(|(kind, block)| distribution(kind, block))
        .collect::<Result<Vec<_>>>()?;
    let psizes =
        psizes.into_iter().map(|processes| unsigned(processes.into())).collect::<Result<Vec<_>>>()?;
    Ok(Datatype::darray(rank, &gsizes, &distributions, &psizes, read.order()?, old)?)
}

fn distribution(kind: c_int, block: c_int) -> Result<Distribution> {
    let block = if block == consts::distribute_default() { None } else { Some(unsigned(i64::from(block))?) };
    if kind == consts::distribute_block() {
        Ok(Distribution::Block(block))
    } else if kind == consts::distribute_cyclic() {
        Ok(Distribution::Cyclic(block))
    } else if kind == consts::distribute_none() {
        Ok(Distribution::None)
    } else {
        Err(Error::invalid(ErrorClass::Type, "an array with an unknown distribution"))
    }
}

/// A pair of a value and an index, laid out as in a C `struct` (MPI-4.1 section 6.9.4).
fn value_index(value: &Datatype, index: &Datatype) -> Result<Datatype> {
    let align = match index.combiner() {
        Combiner::Named(named) => named.align(),
        _ => 1,
    };
    let offset = value.true_ub().max(0) as u64;
    let offset = offset.next_multiple_of(align) as i64;
    Ok(Datatype::structure(&[1, 1], &[0, offset], &[value.clone(), index.clone()])?)
}

#[cfg(test)]
mod tests {
    use capulet_datatype::Named;

    use super::*;

    fn int() -> Datatype {
        Datatype::named(Named::Int)
    }

    /// Asserts that both conventions give the expected type.
    fn same(constructor: Constructor, old: &Arguments, large: &Arguments, expected: &Datatype) {
        for arguments in [old, large] {
            let built = decode(constructor, arguments, &[int(), int()]).expect("well formed");
            assert!(built.is_equivalent(expected), "{constructor:?} from {arguments:?}");
        }
    }

    #[test]
    fn vectors_decode_in_both_conventions() {
        let old = Arguments { integers: vec![3, 2, -5], ..Arguments::default() };
        let large = Arguments { counts: vec![3, 2, -5], ..Arguments::default() };
        same(Constructor::Vector, &old, &large, &Datatype::vector(3, 2, -5, &int()).expect("valid"));
        let old = Arguments { integers: vec![3, 2], addresses: vec![-50], ..Arguments::default() };
        let large = Arguments { counts: vec![3, 2, -50], ..Arguments::default() };
        same(Constructor::Hvector, &old, &large, &Datatype::hvector(3, 2, -50, &int()).expect("valid"));
    }

    #[test]
    fn lists_decode_in_both_conventions() {
        let old = Arguments { integers: vec![2, 1, 3], addresses: vec![40, 8], ..Arguments::default() };
        let large = Arguments { counts: vec![2, 1, 3, 40, 8], ..Arguments::default() };
        let expected = Datatype::hindexed(&[1, 3], &[40, 8], &int()).expect("valid");
        same(Constructor::Hindexed, &old, &large, &expected);
        let expected = Datatype::structure(&[1, 3], &[40, 8], &[int(), int()]).expect("valid");
        same(Constructor::Struct, &old, &large, &expected);
        let integers = Arguments { integers: vec![2, 1, 3, 40, 8], ..Arguments::default() };
        same(Constructor::StructInteger, &integers, &large, &expected);
    }

    #[test]
    fn arrays_decode_in_both_conventions() {
        let order = consts::order_fortran();
        let old = Arguments { integers: vec![2, 5, 6, 2, 3, 1, 2, order], ..Arguments::default() };
        let large =
            Arguments { integers: vec![2, order], counts: vec![5, 6, 2, 3, 1, 2], ..Arguments::default() };
        let expected =
            Datatype::subarray(&[5, 6], &[2, 3], &[1, 2], ArrayOrder::Fortran, &int()).expect("valid");
        same(Constructor::Subarray, &old, &large, &expected);

        let (cyclic, none, default) =
            (consts::distribute_cyclic(), consts::distribute_none(), consts::distribute_default());
        let tail = [cyclic, none, 2, default, 2, 1, consts::order_c()];
        let old = Arguments { integers: [&[2, 1, 2, 7, 3][..], &tail].concat(), ..Arguments::default() };
        let large = Arguments {
            integers: [&[2, 1, 2][..], &tail].concat(),
            counts: vec![7, 3],
            ..Arguments::default()
        };
        let distributions = [Distribution::Cyclic(Some(2)), Distribution::None];
        let expected =
            Datatype::darray(1, &[7, 3], &distributions, &[2, 1], ArrayOrder::C, &int()).expect("valid");
        same(Constructor::Darray, &old, &large, &expected);
    }

    #[test]
    fn short_or_negative_contents_are_errors() {
        let short = Arguments { integers: vec![3, 2], ..Arguments::default() };
        assert!(decode(Constructor::Vector, &short, &[int()]).is_err());
        assert!(decode(Constructor::Dup, &Arguments::default(), &[]).is_err());
        let negative = Arguments { integers: vec![-1], ..Arguments::default() };
        let error =
            decode(Constructor::Contiguous, &negative, &[int()]).expect_err("a negative count is refused");
        assert_eq!(error.class(), ErrorClass::Type);
    }

    #[test]
    fn value_index_has_the_layout_of_a_c_struct() {
        let value = Datatype::named(Named::Double);
        let pair = decode(Constructor::ValueIndex, &Arguments::default(), &[value, int()]).expect("valid");
        assert!(pair.is_equivalent(&Datatype::named(Named::DoubleInt)));
    }
}
