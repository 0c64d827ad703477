//! Conversions one element at a time, as the definitions say, over 128-bit integers; and memory with offsets
//! of any sign.
#![allow(dead_code)] // each test program uses a part

use std::cmp::Ordering;

use capulet_datatype::{Named, NetcdfFormat, NetcdfType, OutOfRange, TranslateError};

use crate::oracle::Tree;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

pub(crate) const NUMBERS: [Number; 10] = [
    Number::I8,
    Number::U8,
    Number::I16,
    Number::U16,
    Number::I32,
    Number::U32,
    Number::I64,
    Number::U64,
    Number::F32,
    Number::F64,
];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Integer(i128),
    Single(f32),
    Double(f64),
}

impl Number {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The least and the largest value of an integer type; `None` for other types.
    pub(crate) fn bounds(self) -> Option<(i128, i128)> {
        let bits = 8 * self.bytes() as u32;
        match self {
            Self::F32 | Self::F64 => None,
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some((0, (1 << bits) - 1)),
            _ => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        }
    }

    /// Whether every value of `self` survives a conversion to `other` and back.
    pub(crate) fn holds_in(self, other: Self) -> bool {
        match (self.bounds(), other.bounds()) {
            (Some(mine), Some(theirs)) => theirs.0 <= mine.0 && mine.1 <= theirs.1,
            (Some(_), None) => self.bytes() < other.bytes(),
            (None, Some(_)) => false,
            (None, None) => self.bytes() <= other.bytes(),
        }
    }

    /// The bytes of a small value in memory.
    pub(crate) fn of_small(self, value: i64) -> Vec<u8> {
        self.bytes_of(match self {
            Self::F32 => Value::Single(value as f32 + 0.25),
            Self::F64 => Value::Double(value as f64 + 0.25),
            _ => Value::Integer(i128::from(value)),
        })
    }

    fn bytes_of(self, value: Value) -> Vec<u8> {
        match value {
            Value::Single(value) => value.to_ne_bytes().to_vec(),
            Value::Double(value) => value.to_ne_bytes().to_vec(),
            Value::Integer(value) => {
                let mut bytes = value.to_le_bytes()[..self.bytes()].to_vec();
                if cfg!(target_endian = "big") {
                    bytes.reverse();
                }
                bytes
            }
        }
    }

    fn value_of(self, bytes: &[u8]) -> Value {
        match self {
            Self::F32 => Value::Single(f32::from_ne_bytes(bytes.try_into().expect("the slice has 4 bytes"))),
            Self::F64 => Value::Double(f64::from_ne_bytes(bytes.try_into().expect("the slice has 8 bytes"))),
            _ => {
                let mut value = 0_i128;
                for i in (0..self.bytes()).rev() {
                    let i = if cfg!(target_endian = "big") { self.bytes() - 1 - i } else { i };
                    value = value << 8 | i128::from(bytes[i]);
                }
                let high = self.bounds().map_or(0, |bounds| bounds.1);
                Value::Integer(if value > high { value - (1 << (8 * self.bytes())) } else { value })
            }
        }
    }
}

pub(crate) fn named_of(number: Number) -> Named {
    match number {
        Number::I8 => Named::SignedChar,
        Number::U8 => Named::UnsignedChar,
        Number::I16 => Named::Short,
        Number::U16 => Named::UnsignedShort,
        Number::I32 => Named::Int,
        Number::U32 => Named::Unsigned,
        Number::I64 => Named::LongLong,
        Number::U64 => Named::UnsignedLongLong,
        Number::F32 => Named::Float,
        Number::F64 => Named::Double,
    }
}

pub(crate) fn external_number(external: NetcdfType) -> Number {
    match external {
        NetcdfType::Byte => Number::I8,
        NetcdfType::Char | NetcdfType::Ubyte => Number::U8,
        NetcdfType::Short => Number::I16,
        NetcdfType::Int => Number::I32,
        NetcdfType::Float => Number::F32,
        NetcdfType::Double => Number::F64,
        NetcdfType::Ushort => Number::U16,
        NetcdfType::Uint => Number::U32,
        NetcdfType::Int64 => Number::I64,
        NetcdfType::Uint64 => Number::U64,
    }
}

/// Values at and around every bound of every number type, in native bytes.
pub(crate) fn edges(number: Number) -> Vec<Vec<u8>> {
    let mut integers: Vec<i128> = vec![0, 1, -1, (1 << 24) + 1, (1 << 53) + 1, 0x1234_5678_9abc_def0];
    for (low, high) in NUMBERS.into_iter().filter_map(Number::bounds) {
        integers.extend([low, high].iter().flat_map(|edge| [edge - 1, *edge, edge + 1]));
    }
    if let Some((low, high)) = number.bounds() {
        let inside = integers.into_iter().filter(|value| (low..=high).contains(value));
        return inside.map(|value| number.bytes_of(Value::Integer(value))).collect();
    }
    let mut reals =
        vec![-0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE];
    reals.extend([5e-324, 1e-40, 1e-45, f64::from(f32::MAX), f64::from(f32::MIN), 1e300, 0.99, -0.99]);
    // Values that round to the largest `f32`, and values that do not.
    let largest = f64::from(f32::MAX);
    reals.extend([1, 2].iter().map(|step| f64::from_bits(largest.to_bits() + step)));
    reals.extend([largest + 1e31, -largest - 1e31, 3.5e38]);
    for &integer in &integers {
        let real = integer as f64;
        reals.extend([real, real - 0.5, real + 0.5]);
        reals.extend([1, u64::MAX].map(|step| f64::from_bits(real.to_bits().wrapping_add(step))));
    }
    let value = |real: f64| match number {
        Number::F32 => Value::Single(real as f32),
        _ => Value::Double(real),
    };
    reals.into_iter().map(|real| number.bytes_of(value(real))).collect()
}

/// The converted element, and whether its value is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) bytes: Vec<u8>,
    pub(crate) misfits: bool,
}

pub(crate) type Pair = (Number, NetcdfType, NetcdfFormat, OutOfRange);

/// The result of a call that converts these elements.
pub(crate) fn outcome(elements: &[Outcome], start: u64) -> Result<(), TranslateError> {
    match elements.iter().position(|one| one.misfits) {
        None => Ok(()),
        Some(first) => {
            let count = elements.iter().filter(|one| one.misfits).count() as u64;
            Err(TranslateError::OutOfRange { first: start + first as u64, count })
        }
    }
}

fn real_to_integer(value: f64, (low, high): (i128, i128)) -> (i128, bool) {
    let misfits = value.partial_cmp(&(high as f64)) == Some(Ordering::Greater)
        || value.partial_cmp(&(low as f64)) == Some(Ordering::Less);
    ((value as i128).clamp(low, high), misfits)
}

fn converted(value: Value, to: Number, writing: bool) -> (Value, bool) {
    match (value, to.bounds(), to) {
        (Value::Integer(value), Some((low, high)), _) => {
            (Value::Integer(value), !(low..=high).contains(&value))
        }
        (Value::Integer(value), None, Number::F32) => (Value::Single(value as f32), false),
        (Value::Integer(value), None, _) => (Value::Double(value as f64), false),
        (Value::Single(value), Some(bounds), _) => {
            let (value, misfits) = real_to_integer(f64::from(value), bounds);
            (Value::Integer(value), misfits)
        }
        (Value::Double(value), Some(bounds), _) => {
            let (value, misfits) = real_to_integer(value, bounds);
            (Value::Integer(value), misfits)
        }
        (Value::Single(value), None, Number::F64) => {
            (Value::Double(f64::from(value)), writing && value.is_infinite())
        }
        (Value::Double(value), None, Number::F32) => {
            let misfits = value > f64::from(f32::MAX) || value < f64::from(f32::MIN);
            (Value::Single(value as f32), misfits)
        }
        (value, None, _) => (value, false),
    }
}

fn default_fill(number: Number) -> Vec<u8> {
    number.bytes_of(match number {
        Number::I8 => Value::Integer(-127),
        Number::U8 => Value::Integer(255),
        Number::I16 => Value::Integer(-32_767),
        Number::U16 => Value::Integer(65_535),
        Number::I32 => Value::Integer(-2_147_483_647),
        Number::U32 => Value::Integer(4_294_967_295),
        Number::I64 => Value::Integer(-9_223_372_036_854_775_806),
        Number::U64 => Value::Integer(18_446_744_073_709_551_614),
        // The fill value 9.9692099683868690e+36, "near 15 * 2^119".
        Number::F32 => Value::Single(15.0 * 2_f32.powi(119)),
        Number::F64 => Value::Double(15.0 * 2_f64.powi(119)),
    })
}

fn one(
    from: Number,
    bytes: &[u8],
    to: Number,
    writing: bool,
    (_, external, format, policy): Pair,
) -> Outcome {
    let unsigned_char = [from, to].contains(&Number::U8) && external == NetcdfType::Byte;
    if from == to || (unsigned_char && format != NetcdfFormat::Cdf5) {
        return Outcome { bytes: bytes.to_vec(), misfits: false };
    }
    let (value, misfits) = converted(from.value_of(bytes), to, writing);
    let fills = misfits && policy == OutOfRange::DefaultFill;
    Outcome { bytes: if fills { default_fill(to) } else { to.bytes_of(value) }, misfits }
}

/// The form in the file of an element in memory.
pub(crate) fn encoded(bytes: &[u8], pair: Pair) -> Outcome {
    let mut outcome = one(pair.0, bytes, external_number(pair.1), true, pair);
    if cfg!(target_endian = "little") {
        outcome.bytes.reverse();
    }
    outcome
}

/// The form in memory of an element in the file.
pub(crate) fn decoded(bytes: &[u8], pair: Pair) -> Outcome {
    let mut bytes = bytes.to_vec();
    if cfg!(target_endian = "little") {
        bytes.reverse();
    }
    one(external_number(pair.1), &bytes, pair.0, false, pair)
}

/// Memory that covers elements at the given offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) low: i64,
}

impl Memory {
    pub(crate) fn covering(offsets: &[i64], element_bytes: usize, fill: u8) -> Self {
        let low = offsets.iter().min().copied().unwrap_or(0);
        let high = offsets.iter().max().map_or(0, |high| high + element_bytes as i64);
        Self { bytes: vec![fill; (high - low) as usize], low }
    }

    /// The address that offsets count from. It may lie outside of the memory.
    pub(crate) fn base(&self) -> *const u8 {
        self.bytes.as_ptr().wrapping_offset(-self.low as isize)
    }

    pub(crate) fn base_mut(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().wrapping_offset(-self.low as isize)
    }

    pub(crate) fn put(&mut self, offset: i64, bytes: &[u8]) {
        let at = (offset - self.low) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn get(&self, offset: i64, bytes: usize) -> &[u8] {
        let at = (offset - self.low) as usize;
        &self.bytes[at..at + bytes]
    }
}

/// The tree with its leaves replaced.
pub(crate) fn with_leaves(tree: Tree, leaf: &mut dyn FnMut(Named) -> Named) -> Tree {
    let mut old = |old: Box<Tree>| Box::new(with_leaves(*old, leaf));
    match tree {
        Tree::Named(named) => Tree::Named(leaf(named)),
        Tree::Dup(inner) => Tree::Dup(old(inner)),
        Tree::Contiguous(n, inner) => Tree::Contiguous(n, old(inner)),
        Tree::Vector(n, block, stride, inner) => Tree::Vector(n, block, stride, old(inner)),
        Tree::Hvector(n, block, stride, inner) => Tree::Hvector(n, block, stride, old(inner)),
        Tree::Indexed(blocks, inner) => Tree::Indexed(blocks, old(inner)),
        Tree::Hindexed(blocks, inner) => Tree::Hindexed(blocks, old(inner)),
        Tree::IndexedBlock(block, at, inner) => Tree::IndexedBlock(block, at, old(inner)),
        Tree::HindexedBlock(block, at, inner) => Tree::HindexedBlock(block, at, old(inner)),
        Tree::Subarray(dims, order, inner) => Tree::Subarray(dims, order, old(inner)),
        Tree::Darray(rank, dims, order, inner) => Tree::Darray(rank, dims, order, old(inner)),
        Tree::Resized(lb, extent, inner) => Tree::Resized(lb, extent, old(inner)),
        Tree::Struct(fields) => {
            Tree::Struct(fields.into_iter().map(|(n, at, field)| (n, at, with_leaves(field, leaf))).collect())
        }
    }
}

/// The tree with all elements of one kind.
pub(crate) fn homogeneous(tree: Tree, number: Number) -> Tree {
    with_leaves(tree, &mut |_| named_of(number))
}
