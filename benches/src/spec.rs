//! Descriptions of types, from which both the MPI type and the Capulet type are built.

use capulet_datatype::{ArrayOrder, Datatype, Named, TypeError};

/// A datatype, described by the calls of its constructors.
#[derive(Debug, Clone)]
pub(crate) enum Spec {
    Named(Named),
    Contiguous(u64, Box<Spec>),
    /// Count, block length, stride in elements.
    Vector(u64, u64, i64, Box<Spec>),
    /// Count, block length, stride in bytes.
    Hvector(u64, u64, i64, Box<Spec>),
    /// Block lengths, displacements in elements.
    Indexed(Vec<u64>, Vec<i64>, Box<Spec>),
    /// Block length, displacements in elements.
    IndexedBlock(u64, Vec<i64>, Box<Spec>),
    /// Displacements in bytes, one block of one element each.
    Struct(Vec<i64>, Vec<Spec>),
    /// Sizes, subsizes, starts.
    Subarray(Vec<u64>, Vec<u64>, Vec<u64>, ArrayOrder, Box<Spec>),
    /// Lower bound and extent in bytes.
    Resized(i64, i64, Box<Spec>),
}

impl Spec {
    pub(crate) fn float() -> Self {
        Spec::Named(Named::Float)
    }

    pub(crate) fn double() -> Self {
        Spec::Named(Named::Double)
    }

    pub(crate) fn contiguous(self, count: u64) -> Self {
        Spec::Contiguous(count, Box::new(self))
    }

    pub(crate) fn vector(self, count: u64, blocklength: u64, stride: i64) -> Self {
        Spec::Vector(count, blocklength, stride, Box::new(self))
    }

    pub(crate) fn hvector(self, count: u64, blocklength: u64, stride_bytes: i64) -> Self {
        Spec::Hvector(count, blocklength, stride_bytes, Box::new(self))
    }

    pub(crate) fn indexed(self, blocklengths: Vec<u64>, displacements: Vec<i64>) -> Self {
        Spec::Indexed(blocklengths, displacements, Box::new(self))
    }

    pub(crate) fn indexed_block(self, blocklength: u64, displacements: Vec<i64>) -> Self {
        Spec::IndexedBlock(blocklength, displacements, Box::new(self))
    }

    pub(crate) fn subarray(self, sizes: &[u64], subsizes: &[u64], starts: &[u64], order: ArrayOrder) -> Self {
        Spec::Subarray(sizes.into(), subsizes.into(), starts.into(), order, Box::new(self))
    }

    pub(crate) fn resized(self, lb: i64, extent: i64) -> Self {
        Spec::Resized(lb, extent, Box::new(self))
    }

    /// Builds the Capulet type anew, without any cached part.
    pub(crate) fn native(&self) -> Result<Datatype, TypeError> {
        match self {
            Spec::Named(named) => Ok(Datatype::named(*named)),
            Spec::Contiguous(count, old) => Datatype::contiguous(*count, &old.native()?),
            Spec::Vector(count, blocklength, stride, old) => {
                Datatype::vector(*count, *blocklength, *stride, &old.native()?)
            }
            Spec::Hvector(count, blocklength, stride, old) => {
                Datatype::hvector(*count, *blocklength, *stride, &old.native()?)
            }
            Spec::Indexed(lengths, at, old) => Datatype::indexed(lengths, at, &old.native()?),
            Spec::IndexedBlock(length, at, old) => Datatype::indexed_block(*length, at, &old.native()?),
            Spec::Struct(at, parts) => {
                let parts = parts.iter().map(Spec::native).collect::<Result<Vec<_>, _>>()?;
                Datatype::structure(&vec![1; parts.len()], at, &parts)
            }
            Spec::Subarray(sizes, subsizes, starts, order, old) => {
                Datatype::subarray(sizes, subsizes, starts, *order, &old.native()?)
            }
            Spec::Resized(lb, extent, old) => Datatype::resized(*lb, *extent, &old.native()?),
        }
    }
}
