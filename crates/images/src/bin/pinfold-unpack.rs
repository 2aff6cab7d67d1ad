//! The unpacker as a program of its own, for the tests of this crate. `pinfold` is its own unpacker.

use std::io;
use std::process::ExitCode;

fn main() -> io::Result<ExitCode> {
    let request = std::env::args().next_back().unwrap_or_default();
    pinfold_images::unpack::run(&request).map(ExitCode::from)
}
