//! Serves files inside the sandbox to the control plane. A child of the keeper serves one request, confined like an
//! execution. It takes over the connection, so that a large or blocking file delays no other request.

pub(crate) mod children;
mod content;
mod paths;
mod tree;
mod watch;

use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;

use self::paths::Refusal;
use crate::priority;
use crate::syscalls;
use pinfold_confine::Confinement;
use pinfold_confine::syscalls::{close_from, exit_now};
use pinfold_keeper_wire::files::{FileAnswer, FileRequest};
use pinfold_keeper_wire::send;

/// In the child: serves the request over the connection and exits, which closes the connection.
pub(crate) fn serve(request: &FileRequest, connection: UnixStream, confinement: &Confinement) -> ! {
    let served = prepare_child(connection, confinement).and_then(|mut connection| {
        let answer = answer(request, &mut connection);
        send(&mut connection, &answer)
    });
    exit_now(i32::from(served.is_err()))
}

/// Drops everything inherited from the keeper but the connection, and applies the confinement of executions.
fn prepare_child(connection: UnixStream, confinement: &Confinement) -> io::Result<UnixStream> {
    connection.set_nonblocking(false)?;
    priority::reset_in_new_session()?;
    syscalls::reset_signals();
    syscalls::dup_to(&connection, 0)?;
    close_from(1)?;
    // close_from has closed its descriptor: do not close it again.
    let _ = connection.into_raw_fd();
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    confinement.apply().map_err(io::Error::other)?;
    Ok(syscalls::take_inherited(0)?.into())
}

fn answer(request: &FileRequest, connection: &mut UnixStream) -> FileAnswer {
    let answered = match request {
        FileRequest::Stat { path } => tree::stat(path).map(FileAnswer::Metadata),
        FileRequest::List { path, most } => tree::list(path, *most, connection),
        FileRequest::Read { path, from, most } => content::read(path, *from, *most, connection),
        FileRequest::Write { path, mode } => content::write(path, *mode, connection),
        FileRequest::MakeDirectory { path, parents } => tree::make_directory(path, *parents),
        FileRequest::SetMode { path, mode } => tree::set_mode(path, *mode),
        FileRequest::MakeLink { path, target } => tree::make_link(path, target),
        FileRequest::Rename { from, to, replace } => tree::rename(from, to, *replace),
        FileRequest::Remove { path, recursive } => tree::remove(path, *recursive),
        FileRequest::Watch { path } => watch::watch(path, connection),
    };
    answered.unwrap_or_else(|Refusal { reason, why }| FileAnswer::Refused { reason, why })
}
