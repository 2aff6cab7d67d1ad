//! Escapes by the network, of which there is none, and into the queues and sockets of others.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::Duration;

use crate::kernel::{call, owned, receive_descriptor};
use crate::verdict::{Attempt, Step, Verdict, must_fail, must_not_work, suite_variable, through_if};

pub(crate) const ATTEMPTS: &[(&str, Attempt)] = &[
    ("connect", |arguments| connect(&arguments[0])),
    ("send-a-datagram", |arguments| {
        let address: SocketAddr = arguments[0].parse().map_err(|_| "no address".to_owned())?;
        let any: SocketAddr = if address.is_ipv6() { ([0; 8], 0).into() } else { ([0; 4], 0).into() };
        let socket = UdpSocket::bind(any).step("open a socket")?;
        socket.set_read_timeout(Some(Duration::from_millis(300))).step("set a timeout")?;
        let answer = socket
            .connect(address)
            .and_then(|()| socket.send(b"ping"))
            .and_then(|_| socket.recv(&mut [0; 8]));
        must_not_work(answer)
    }),
    ("raw-packets", |_| {
        must_fail(call(libc::SYS_socket, &[libc::AF_INET as usize, libc::SOCK_RAW as usize, 1]).map(owned))
    }),
    ("change-its-interfaces", |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").step("open a socket")?;
        let mut request = [0_u8; 40];
        request[..2].copy_from_slice(b"lo");
        // The interface is up already.
        request[16..18].copy_from_slice(&0x41_u16.to_ne_bytes());
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or(0);
        must_fail(call(libc::SYS_ioctl, &[number, 0x8914, request.as_ptr().addr()]))
    }),
    ("see-other-interfaces", |_| {
        let found = fs::read_to_string("/proc/net/dev").step("list interfaces")?;
        let names: Vec<&str> =
            found.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
        through_if(names.iter().any(|name| *name != "lo"), format!("{names:?}"))
    }),
    ("see-the-hosts-connections", |_| {
        let port: u16 = suite_variable("TCP_PORT")?.parse().map_err(|_| "no port".to_owned())?;
        let found = fs::read_to_string("/proc/net/tcp").step("list connections")?;
        through_if(found.contains(&format!(":{port:04X} ")), "the table of connections")
    }),
    ("abstract-socket-of-the-host", |_| must_not_work(abstract_socket(&suite_variable("ABSTRACT")?))),
    ("descriptor-from-outside-by-a-socket", |_| {
        let stream = match abstract_socket(&suite_variable("ABSTRACT")?) {
            Ok(stream) => stream,
            Err(error) => return must_not_work::<()>(Err(error)),
        };
        let directory = receive_descriptor(&stream).step("receive")?;
        let path = format!("/proc/self/fd/{}/canary", directory.as_fd().as_raw_fd());
        must_not_work(fs::read(path))
    }),
    ("bind-the-hosts-abstract-name", |_| {
        let address = UnixAddr::from_abstract_name(suite_variable("ABSTRACT")?).step("name")?;
        match UnixListener::bind_addr(&address) {
            // The name is free here, so this is another namespace.
            Ok(_) => Ok(Verdict::Held("a name of its own".into())),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                Ok(Verdict::Through("the host's names are seen".into()))
            }
            Err(error) => Err(error.to_string()),
        }
    }),
    ("shared-memory-of-the-host", |_| {
        let key: i32 = suite_variable("SHARED_MEMORY")?.parse().map_err(|_| "no key".to_owned())?;
        must_fail(call(libc::SYS_shmget, &[key.cast_unsigned() as usize, 0, 0]))
    }),
    ("listen-for-a-neighbour", |arguments| {
        let tcp = TcpListener::bind(&arguments[0]).step("listen")?;
        let address = UnixAddr::from_abstract_name(&arguments[1]).step("name")?;
        let _named = UnixListener::bind_addr(&address).step("listen by name")?;
        println!("listening");
        let _ = tcp.accept();
        Ok(Verdict::Through("a connection was accepted".into()))
    }),
    ("visit-a-neighbour", |arguments| connect(&arguments[0])),
    ("visit-a-neighbour-by-name", |arguments| must_not_work(abstract_socket(&arguments[1]))),
    ("visit-all-neighbours-addresses", |_| {
        for address in ["10.0.0.1:7777", "172.17.0.1:7777", "192.168.0.1:7777", "[fe80::1]:7777"] {
            if let Verdict::Through(what) = connect(address)? {
                return Ok(Verdict::Through(format!("{address}: {what}")));
            }
        }
        Ok(Verdict::Held("none answers".into()))
    }),
];

/// Any answer from outside, even a refusal, is a way out; a missing route is none.
fn connect(address: &str) -> Result<Verdict, String> {
    let address: SocketAddr = address.parse().map_err(|_| format!("`{address}` is no address"))?;
    let own = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
    };
    match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
        Ok(mut stream) => {
            let mut greeting = [0; 6];
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let heard = stream.read(&mut greeting).unwrap_or(0);
            Ok(Verdict::Through(format!("connected, and heard {heard} bytes")))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused && own => {
            Ok(Verdict::Held("its own loopback without a listener".into()))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Ok(Verdict::Through("a host refused the connection".into()))
        }
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Ok(Verdict::Through("packets went somewhere".into()))
        }
        Err(error) => Ok(Verdict::Held(error.to_string())),
    }
}

fn abstract_socket(name: &str) -> std::io::Result<UnixStream> {
    UnixStream::connect_addr(&UnixAddr::from_abstract_name(name)?)
}
