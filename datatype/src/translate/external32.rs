//! The `external32` representation (MPI 4.1, section 14.5.2): the size and form of each predefined type in
//! this representation.
//!
//! | in memory | in `external32` |
//! |---|---|
//! | integers, IEEE numbers, complex numbers | the same sizes, big-endian |
//! | `long`, `unsigned long` | 4 bytes; larger values are out of range |
//! | `wchar_t` | 2 bytes of Unicode; code points above U+FFFF are out of range |
//! | `long double` and its complex type | binary128 |
//! | truth values | the same sizes; 0 is false, any other value is true and is read as 1 |
//! | characters, bytes | unchanged |
//! | value and index | one after the other, without the gap |

use std::collections::HashMap;
use std::sync::Arc;

use crate::named::{Named, Prim, PrimKind};
use crate::translate::error::TranslateError;
use crate::translate::number::NumberKind;
use crate::translate::script::{Both, Script, Step};
use crate::translate::unit::{Change, Unit};
use crate::tree::{Combiner, Datatype};

/// The change of a basic element of a predefined type, and the number of its parts that are converted
/// separately.
fn change_of(named: Named, prim: Prim) -> Option<(Change, u64)> {
    use PrimKind::{
        Byte, Complex, Float, Logical, LongDouble, LongDoubleComplex, Signed, Text, Unsigned, WideText,
    };
    let bytes = u8::try_from(prim.bytes).ok()?;
    Some(match (prim.kind, bytes) {
        (Signed, 8) if matches!(named, Named::Long | Named::LongInt) => {
            (Change::Cast(NumberKind::I64, NumberKind::I32), 1)
        }
        (Unsigned, 8) if named == Named::UnsignedLong => (Change::Cast(NumberKind::U64, NumberKind::U32), 1),
        (Signed | Unsigned, 1 | 2 | 4 | 8 | 16) | (Float, 2 | 4 | 8 | 16) => (Change::Swap(bytes), 1),
        (Complex, 4 | 8 | 16 | 32) => (Change::Swap(bytes / 2), 2),
        (LongDouble, 16) => (long_double()?, 1),
        (LongDoubleComplex, 32) => (long_double()?, 2),
        (Logical, 1 | 2 | 4 | 8 | 16) => (Change::Truth(bytes), 1),
        (WideText, 4) => (Change::Cast(NumberKind::U32, NumberKind::U16), 1),
        (Text | Byte, 1) => (Change::Swap(1), 1),
        _ => return None,
    })
}

/// The change of a C `long double` of 16 bytes; `None` where it is a pair of doubles.
const fn long_double() -> Option<Change> {
    if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        Some(Change::Quad)
    } else if cfg!(any(target_arch = "powerpc", target_arch = "powerpc64")) {
        None
    } else {
        Some(Change::Swap(16))
    }
}

/// Makes the script of a type. Each node of its tree is visited once.
#[derive(Default)]
struct Builder {
    units: Vec<Unit>,
    scripts: HashMap<usize, Script>,
}

impl Builder {
    fn step(&mut self, change: Change, parts: u64) -> (Step, Both) {
        let known = self.units.iter().position(|unit| unit.change == change && unit.parts == parts);
        // The number of different changes is far below the range of a step.
        let step = known.unwrap_or_else(|| {
            self.units.push(Unit::new(change, parts));
            self.units.len() - 1
        });
        (step as Step, self.units[step].bytes)
    }

    fn named(&mut self, named: Named) -> Result<Script, TranslateError> {
        let mut parts = Vec::new();
        for (_, prim) in named.elements().filter(|(_, prim)| prim.bytes > 0) {
            let (change, count) = change_of(named, prim).ok_or(TranslateError::Unsupported { prim })?;
            let (step, bytes) = self.step(change, count);
            parts.push(Script::run(step, 1, bytes));
        }
        Ok(Script::concatenated(parts))
    }

    fn script(&mut self, datatype: &Datatype) -> Result<Script, TranslateError> {
        if datatype.size() == 0 {
            return Ok(Script::empty());
        }
        let node = Arc::as_ptr(&datatype.0).addr();
        if let Some(script) = self.scripts.get(&node) {
            return Ok(script.clone());
        }
        let script = match datatype.combiner() {
            Combiner::Named(named) => self.named(*named)?,
            Combiner::Struct { blocklengths, types, .. } => {
                let mut fields = Vec::with_capacity(types.len());
                for (&n, field) in blocklengths.iter().zip(types).filter(|(n, _)| **n > 0) {
                    fields.push(self.script(field)?.repeated(n));
                }
                Script::concatenated(fields)
            }
            Combiner::Dup { old }
            | Combiner::Contiguous { old, .. }
            | Combiner::Vector { old, .. }
            | Combiner::Hvector { old, .. }
            | Combiner::Indexed { old, .. }
            | Combiner::Hindexed { old, .. }
            | Combiner::IndexedBlock { old, .. }
            | Combiner::HindexedBlock { old, .. }
            | Combiner::Subarray { old, .. }
            | Combiner::Darray { old, .. }
            | Combiner::Resized { old, .. } => {
                // A type with data has an old type with data, and its size is a multiple of the size of the
                // old type.
                self.script(old)?.repeated(datatype.size() / old.size().max(1))
            }
        };
        self.scripts.insert(node, script.clone());
        Ok(script)
    }
}

/// The conversions of one instance of a type.
pub(super) fn script_of(datatype: &Datatype) -> Result<(Script, Vec<Unit>), TranslateError> {
    let mut builder = Builder::default();
    let script = builder.script(datatype)?;
    Ok((script, builder.units))
}
