//! `capulet plan`: shows how an access would be carried out, and why. The functions that the library
//! calls make the plan.

pub(crate) mod args;
mod draw;
mod error;
mod json;
mod planned;
mod setup;
mod source;
mod text;

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use capulet_plan::estimate::{Limits, estimate};

use self::args::PlanArgs;
use self::error::Error;
use self::planned::Planned;
use crate::args::BAD;

/// Prints the plan, and draws it if the options ask for a drawing.
pub(crate) fn run(args: &PlanArgs) -> ExitCode {
    match print(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{BAD}capulet:{BAD:#} {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn print(args: &PlanArgs) -> Result<(), Error> {
    let parts = source::parts(&args.source, args.ranks)?;
    let setup = setup::setup(args, parts.len())?;
    let estimate = estimate(&parts, &setup, Limits::default());
    let planned = Planned { parts, setup, estimate };
    let printed = if args.json { json::of(&planned) } else { text::of(&planned) };
    if let Some(path) = &args.svg {
        let drawn = draw::of(&planned);
        fs::write(path, drawn).map_err(|cause| Error::Unwritable { path: path.clone(), cause })?;
    }
    let mut output = io::stdout().lock();
    let written = output.write_all(printed.as_bytes()).and_then(|()| output.flush());
    match written {
        // The reader of the pipe has closed it and wants no more.
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::Output),
    }
}
