//! Each rank collectively writes every P-th column of a matrix, for P ranks, and reads its part back.
//!
//! Run with `mpiexec -n 4 target/openmpi/debug/examples/columns [FILE]`.

use capulet_adio::{AccessMode, Context, File};
use capulet_comm::MpiType;
use mpi::raw::AsRaw;
use mpi::traits::{Communicator, Equivalence};

const ROWS: usize = 64;
const COLUMNS_EACH: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let universe = mpi::initialize().ok_or("MPI is running already")?;
    let world = universe.world();
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let name = std::env::args().nth(1).unwrap_or_else(|| "columns.bin".to_owned());

    let context = Context::new(capulet_drivers::Registry::standard());
    let mode = AccessMode::CREATE | AccessMode::READ_WRITE | AccessMode::DELETE_ON_CLOSE;
    let file = File::open(&world, &name, mode, &context)?;

    // One of every `ranks` doubles, starting with the first column of this rank.
    let blocks = (ROWS * COLUMNS_EACH) as i32;
    let columns = mpi::datatype::UserDatatype::vector(blocks, 1, ranks as i32, &f64::equivalent_datatype());
    let etype = MpiType::of::<f64>()?;
    // SAFETY: `# Safety` of `MpiType::import`: `columns` is a valid datatype, which lives until the end
    // of `main`.
    let filetype = unsafe { MpiType::import(columns.as_raw()) }?;
    file.set_view((8 * rank) as i64, etype, filetype, "native")?;

    let mine: Vec<f64> = (0..ROWS * COLUMNS_EACH).map(|cell| (cell * ranks + rank) as f64).collect();
    let written_bytes = file.write_at_all(0, &mine[..])?;
    let mut back = vec![0.0; mine.len()];
    let read_bytes = file.read_at_all(0, &mut back[..])?;
    assert_eq!((written_bytes, read_bytes), (8 * mine.len() as u64, 8 * mine.len() as u64));
    assert_eq!(back, mine);

    if rank == 0 {
        println!("{} bytes in {name}", file.size()?);
    }
    file.close()?;
    Ok(())
}
