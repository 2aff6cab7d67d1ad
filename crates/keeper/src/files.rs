//! Files inside, for whoever asks from outside: a child of the keeper serves one request, seeing what code inside
//! sees and able to do no more. The connection is handed to it, so that a file of any size, or one that never
//! answers, holds up nobody else.

pub(crate) mod children;
mod content;
mod place;
mod tree;
mod watch;
pub mod wire;

use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;

use self::place::Refusal;
use self::wire::{FileAnswer, FileRequest};
use crate::confine::Confinement;
use crate::kernel;
use crate::precedence;
use crate::wire::send;

/// In the child: serves the request over the connection and ends. Whoever asked sees the connection close.
pub(crate) fn serve(request: &FileRequest, connection: UnixStream, confinement: &Confinement) -> ! {
    let served = get_ready(connection, confinement).and_then(|mut connection| {
        let answer = answer(request, &mut connection);
        send(&mut connection, &answer)
    });
    kernel::vanish(i32::from(served.is_err()))
}

/// Holds nothing of the keeper's but the one connection, and nothing that code inside does not have.
fn get_ready(connection: UnixStream, confinement: &Confinement) -> io::Result<UnixStream> {
    connection.set_nonblocking(false)?;
    precedence::give_up()?;
    kernel::reset_signals();
    kernel::duplicate_as(&connection, 0)?;
    kernel::close_from(1)?;
    // Its number is closed already.
    let _ = connection.into_raw_fd();
    rustix::process::chdir("/")?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    confinement.apply().map_err(io::Error::other)?;
    Ok(kernel::inherited(0)?.into())
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
