//! Test program that imports and unpacks images. The `pinfold` program does both itself.
//!
//! `pinfold-images import DIRECTORY SOURCE NAME`, `pinfold-images unpack REQUEST`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for tests")]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use pinfold_images::{Images, Unpacker};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["import", directory, source, name] => import(directory, source, name),
        ["unpack", request] => pinfold_images::unpack::run(request).map(ExitCode::from).map_err(Into::into),
        _ => Err("neither import nor unpack".into()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default());
        ExitCode::FAILURE
    })
}

fn import(directory: &str, source: &str, name: &str) -> Result<ExitCode, Box<dyn Error>> {
    let unpacker = Unpacker { program: std::env::current_exe()?, arguments: vec!["unpack".into()] };
    let image = Images::open(directory, unpacker)?.import(Path::new(source), name)?;
    println!("{}", image.id);
    Ok(ExitCode::SUCCESS)
}
