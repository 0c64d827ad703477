//! Data that applications exchange, after the cases and the largest parameters of `DDTBench` (Schneider,
//! Gerstenberger, Hoefler, "Micro-Applications for Communication Data Access Patterns and MPI Datatypes",
//! `EuroMPI` 2012).
//!
//! A generator with a fixed seed draws the lists that are random in `DDTBench`.

use crate::cases::case::{Body, Case, Element};
use crate::hand::{Contiguous, Listed, Loops, Nest, Nests, Sequence};
use crate::random::Random;
use crate::spec::Spec;

const SUITE: &str = "applications";

pub(crate) fn cases() -> Vec<Case> {
    let (float, double) = (f32::NAME, f64::NAME);
    let case =
        |name: &str, element: &'static str, build: fn() -> Body| Case::new(SUITE, name, element, build);
    vec![
        case("WRF_y_vec", float, || wrf(Halo { i: (5, 23), j: (7, 3) })),
        case("WRF_x_vec", float, || wrf(Halo { i: (22, 3), j: (4, 44) })),
        case("MILC_su3_zd", float, milc),
        case("NAS_LU_y", double, lu_y),
        case("NAS_LU_x", double, lu_x),
        case("NAS_MG_x", double, || mg(MG_X)),
        case("NAS_MG_y", double, || mg(MG_Y)),
        case("NAS_MG_z", double, || mg(MG_Z)),
        case("LAMMPS_full", double, || lammps(3_062, 3_534, 5)),
        case("LAMMPS_atomic", double, || lammps(243, 4_084, 3)),
        case("SPECFEM3D_oc", float, outer_core),
        case("SPECFEM3D_cm", float, crust_mantle),
        case("SPECFEM3D_mt", float, mantle),
        case("FFT2D_T", "cplx16", fft_transpose),
    ]
}

/// The part of each array that WRF sends: the first column and the number of columns, and the same of
/// rows.
#[derive(Clone, Copy)]
struct Halo {
    i: (usize, usize),
    j: (usize, usize),
}

/// WRF: four arrays of two dimensions (i, j) and five arrays of three dimensions (i, k, j), one after the
/// other.
fn wrf(halo: Halo) -> Body {
    const I: usize = 32;
    const J: usize = 52;
    const K: usize = 65;
    const FLAT: usize = 4;
    const DEEP: usize = 5;
    let ((i, columns), (j, rows)) = (halo.i, halo.j);
    let bytes = |elements: usize| elements as i64 * f32::BYTES;
    let (mut at, mut parts, mut nests) = (Vec::new(), Vec::new(), Vec::new());
    for array in 0..FLAT {
        let origin = array * I * J + j * I + i;
        at.push(bytes(origin));
        parts.push(f32::spec().vector(rows as u64, columns as u64, I as i64));
        nests.push(Nest { origin, counts: [1, 1, 1, rows], strides: [0, 0, 0, I], row: columns });
    }
    for array in 0..DEEP {
        let origin = FLAT * I * J + array * I * J * K + j * I * K + i;
        at.push(bytes(origin));
        let plane = f32::spec().vector(K as u64, columns as u64, I as i64);
        parts.push(plane.hvector(rows as u64, 1, bytes(I * K)));
        nests.push(Nest { origin, counts: [1, 1, rows, K], strides: [0, 0, I * K, I], row: columns });
    }
    let spec = Spec::Struct(at, parts);
    if columns == 3 {
        Body::new(spec, Nests::<f32, 3>::new(nests))
    } else {
        Body::new(spec, Nests::<f32, 0>::new(nests))
    }
}

/// MILC: su3 vectors of a lattice of 16^4, half of each plane. Even sites come first, then odd ones.
fn milc() -> Body {
    const EDGE: usize = 16;
    const SU3: usize = 6;
    let (taken, volume) = (EDGE * EDGE / 2, EDGE * EDGE * EDGE / 2);
    let odd_sites = volume * EDGE * SU3;
    let rows = f32::spec().contiguous(SU3 as u64).vector(EDGE as u64, taken as u64, volume as i64);
    let spec = rows.hvector(2, 1, odd_sites as i64 * f32::BYTES);
    let nest = Nest {
        origin: 0,
        counts: [1, 1, 2, EDGE],
        strides: [0, 0, odd_sites, volume * SU3],
        row: taken * SU3,
    };
    Body::new(spec, Nests::<f32, 0>::new(vec![nest]))
}

const LU_EDGE: usize = 1_020;
const LU_VARIABLES: usize = 5;

/// NAS LU: five variables of each cell in a column.
fn lu_y() -> Body {
    let stride = LU_EDGE + 2;
    let cell = f64::spec().contiguous(LU_VARIABLES as u64);
    let nest = Nest {
        origin: 0,
        counts: [1, 1, 1, LU_EDGE],
        strides: [0, 0, 0, stride * LU_VARIABLES],
        row: LU_VARIABLES,
    };
    let loops = Nests::<f64, LU_VARIABLES>::new(vec![nest]);
    Body::new(cell.vector(LU_EDGE as u64, 1, stride as i64), loops)
}

/// NAS LU: a row, which is contiguous.
fn lu_x() -> Body {
    let count = LU_EDGE * LU_VARIABLES;
    Body::new(f64::spec().contiguous(count as u64), Contiguous)
}

/// A face of NAS MG's grid: rows of planes.
#[derive(Clone, Copy)]
struct Face {
    rows: (usize, usize),
    planes: (usize, usize),
    row: usize,
}

const MG: [usize; 3] = [514, 258, 258];
const MG_X: Face = Face { rows: (MG[1] - 2, MG[0]), planes: (MG[2] - 2, MG[0] * MG[1]), row: 1 };
const MG_Y: Face = Face { rows: (1, 0), planes: (MG[2] - 2, MG[0] * MG[1]), row: MG[0] - 2 };
const MG_Z: Face = Face { rows: (MG[1] - 2, MG[0]), planes: (1, 0), row: MG[0] - 2 };

fn mg(face: Face) -> Body {
    let Face { rows: (rows, row_stride), planes: (planes, plane_stride), row } = face;
    let spec = match (rows, planes) {
        (1, _) => f64::spec().vector(planes as u64, row as u64, plane_stride as i64),
        (_, 1) => f64::spec().vector(rows as u64, row as u64, row_stride as i64),
        _ => f64::spec().vector(rows as u64, row as u64, row_stride as i64).hvector(
            planes as u64,
            1,
            plane_stride as i64 * f64::BYTES,
        ),
    };
    let nest =
        Nest { origin: 0, counts: [1, 1, planes, rows], strides: [0, 0, plane_stride, row_stride], row };
    let mut body = if row == 1 {
        Body::new(spec, Nests::<f64, 1>::new(vec![nest]))
    } else {
        Body::new(spec, Nests::<f64, 0>::new(vec![nest]))
    };
    body.origin = (MG[0] * MG[1] + MG[0] + 1) * f64::BYTES as usize;
    body
}

/// LAMMPS: the positions of listed atoms, three doubles each, and then `scalars` other values of the same
/// atoms.
fn lammps(taken: usize, atoms: usize, scalars: usize) -> Body {
    let list = Random::new(2).draw(taken, atoms);
    let thrice: Vec<i64> = list.iter().map(|at| 3 * at).collect();
    let room = atoms + taken;
    let mut at = vec![0];
    let mut parts = vec![f64::spec().indexed_block(3, thrice.clone())];
    let mut loops: Vec<(usize, Box<dyn Loops>)> =
        vec![(24 * taken, Box::new(Listed::<f64, 3>::new(0, &thrice)))];
    for scalar in 0..scalars {
        let origin = (3 + scalar) * room;
        at.push(origin as i64 * f64::BYTES);
        parts.push(f64::spec().indexed_block(1, list.clone()));
        loops.push((8 * taken, Box::new(Listed::<f64, 1>::new(origin, &list))));
    }
    Body::new(Spec::Struct(at, parts), Sequence(loops))
}

/// SPECFEM3D, outer core: a float of each listed point.
fn outer_core() -> Body {
    let list = Random::new(3).draw(3_225, 88_881);
    let loops = Listed::<f32, 1>::new(0, &list);
    Body::new(f32::spec().indexed_block(1, list), loops)
}

/// SPECFEM3D, crust and mantle, and inner core: three floats of each listed point, of two arrays.
fn crust_mantle() -> Body {
    const MANTLE_POINTS: usize = 834_917;
    let list = |seed, count, points| -> Vec<i64> {
        Random::new(seed).draw(count, points).iter().map(|at| 3 * at).collect()
    };
    let (mantle, core) = (list(4, 11_797, MANTLE_POINTS), list(5, 3_009, 51_153));
    let origin = 3 * MANTLE_POINTS;
    let loops: Vec<(usize, Box<dyn Loops>)> = vec![
        (12 * mantle.len(), Box::new(Listed::<f32, 3>::new(0, &mantle))),
        (12 * core.len(), Box::new(Listed::<f32, 3>::new(origin, &core))),
    ];
    let parts = vec![f32::spec().indexed_block(3, mantle), f32::spec().indexed_block(3, core)];
    Body::new(Spec::Struct(vec![0, origin as i64 * f32::BYTES], parts), Sequence(loops))
}

/// SPECFEM3D, mantle: three floats of six.
fn mantle() -> Body {
    const POINTS: usize = 7_600;
    let nest = Nest { origin: 0, counts: [1, 1, 1, POINTS], strides: [0, 0, 0, 6], row: 3 };
    Body::new(f32::spec().vector(POINTS as u64, 3, 6), Nests::<f32, 3>::new(vec![nest]))
}

/// FFT in two dimensions: one block of a matrix of 1536^2 complex numbers on four processes, by columns.
fn fft_transpose() -> Body {
    const COLUMNS: usize = 1_536;
    const BLOCK: usize = COLUMNS / 4;
    const BYTES: i64 = 2 * f64::BYTES;
    let column = Spec::Named(capulet_datatype::Named::CDoubleComplex).vector(BLOCK as u64, 1, COLUMNS as i64);
    let nest = Nest { origin: 0, counts: [1, 1, BLOCK, BLOCK], strides: [0, 0, 1, COLUMNS], row: 1 };
    let loops = Nests::<[f64; 2], 1>::new(vec![nest]);
    Body::new(column.resized(0, BYTES).contiguous(BLOCK as u64), loops)
}
