//! Targets on the host that no sandbox may reach: listeners, an abstract socket, shared memory.

use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

pub(crate) struct HostTargets {
    pub(crate) tcp: u16,
    pub(crate) tcp6: u16,
    pub(crate) udp: u16,
    pub(crate) name: String,
    /// Key of a segment that every user may open.
    pub(crate) segment_key: i32,
    segment: i32,
    _directory: tempfile::TempDir,
}

impl HostTargets {
    /// Every connection gets a greeting, and over the abstract socket a directory descriptor. The threads end with
    /// this program.
    pub(crate) fn open() -> std::io::Result<Self> {
        let directory = tempfile::tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        fs::write(directory.path().join("canary"), "of the host")?;
        let name = format!("pinfold-attacks-{}", std::process::id());
        send_directory(&name, File::open(directory.path())?)?;
        let (segment, segment_key) = share_memory()?;
        Ok(Self {
            tcp: greet("127.0.0.1:0")?,
            tcp6: greet("[::1]:0")?,
            udp: echo()?,
            name,
            segment_key,
            segment,
            _directory: directory,
        })
    }
}

impl Drop for HostTargets {
    fn drop(&mut self) {
        let _ = Command::new("ipcrm").args(["-m", &self.segment.to_string()]).status();
    }
}

fn greet(address: &str) -> std::io::Result<u16> {
    let listener = TcpListener::bind(address)?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().flatten() {
            let _ = visitor.write_all(b"hello\n");
        }
    });
    Ok(port)
}

fn echo() -> std::io::Result<u16> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let port = socket.local_addr()?.port();
    std::thread::spawn(move || {
        let mut said = [0; 64];
        while let Ok((length, from)) = socket.recv_from(&mut said) {
            let _ = socket.send_to(&said[..length], from);
        }
    });
    Ok(port)
}

fn send_directory(name: &str, directory: File) -> std::io::Result<()> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    std::thread::spawn(move || {
        for visitor in listener.incoming().flatten() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let gift = [directory.as_fd()];
            if ancillary.push(SendAncillaryMessage::ScmRights(&gift)) {
                let _ = sendmsg(&visitor, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::NOSIGNAL);
            }
        }
    });
    Ok(())
}

/// The segment's id and key.
fn share_memory() -> std::io::Result<(i32, i32)> {
    let output = Command::new("ipcmk").args(["-M", "4096", "-p", "0666"]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = said.rsplit(' ').next().and_then(|number| number.trim().parse().ok());
    let number: i32 = number.ok_or_else(|| std::io::Error::other(format!("ipcmk said `{said}`")))?;
    let table = fs::read_to_string("/proc/sysvipc/shm")?;
    let key = table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let key = words.next()?.parse().ok()?;
        (words.next()?.parse() == Ok(number)).then_some(key)
    });
    Ok((number, key.ok_or(std::io::ErrorKind::NotFound)?))
}
