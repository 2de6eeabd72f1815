//! The metrics over HTTP: `GET /metrics` and nothing else. A client that is slow, or says nothing, takes one of a few
//! places for some seconds, and holds nothing up.

use super::metrics::Metrics;
use anyhow::Context as _;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Clients at once.
const CLIENTS: usize = 8;
/// A client has this long to ask, and as long to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a request.
const REQUEST_MAX: usize = 8 << 10;

/// Where to listen: an address and a port, or a port of the loopback interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(SocketAddr);

impl FromStr for At {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let port = text.strip_prefix(':').unwrap_or(text);
        if let Ok(port) = port.parse() {
            return Ok(Self(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
        }
        let address =
            text.parse().map_err(|_| format!("'{text}': use IP:PORT, as in 127.0.0.1:9464"))?;
        Ok(Self(address))
    }
}

/// Begins to listen; what to say about it.
pub(super) fn start(at: At, metrics: &Metrics) -> anyhow::Result<String> {
    let At(address) = at;
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen at {address}"))?;
    let address = listener.local_addr()?;
    let metrics = metrics.clone();
    std::thread::Builder::new()
        .name("sl-listen".into())
        .spawn(move || listen(&listener, &metrics))?;
    let mut text = format!("metrics at http://{address}/metrics");
    if !address.ip().is_loopback() {
        text += ": who can reach that address can read the names and loads of all groups";
    }
    Ok(text)
}

fn listen(listener: &TcpListener, metrics: &Metrics) {
    let busy = Arc::new(AtomicUsize::new(0));
    let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    for client in listener.incoming() {
        // Out of file descriptors, mostly.
        let Ok(client) = client else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if busy.fetch_add(1, Ordering::AcqRel) >= CLIENTS {
            busy.fetch_sub(1, Ordering::AcqRel);
            let _ = client.set_nonblocking(true);
            let _ = answer(&client, "503 Service Unavailable", "", "too many clients\n");
            continue;
        }
        let done = Arc::clone(&busy);
        let metrics = metrics.clone();
        let serve = move || {
            let _ = serve(client, &metrics, is_local);
            done.fetch_sub(1, Ordering::AcqRel);
        };
        let thread = std::thread::Builder::new().name("sl-client".into()).spawn(serve);
        if thread.is_err() {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(mut client: TcpStream, metrics: &Metrics, is_local: bool) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = request(&mut client)? else {
        return answer(&client, "400 Bad Request", "", "not a request\n");
    };
    let mut words = request.split(' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default();
    let header = |wanted: &str| {
        request.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let host = header("host");
    let path = path.split('?').next().unwrap_or_default();
    // A page of the internet whose name leads to this machine would have its own name there.
    let is_ours = |host: &str| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        name == "localhost" || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
    };
    if method != "GET" {
        return answer(&client, "405 Method Not Allowed", "Allow: GET\r\n", "GET only\n");
    }
    if is_local && !host.is_none_or(is_ours) {
        return answer(&client, "403 Forbidden", "", "use an address or localhost\n");
    }
    if path != "/metrics" {
        return answer(&client, "404 Not Found", "", "the metrics are at /metrics\n");
    }
    const OPEN: &str = "application/openmetrics-text";
    let is_open = header("accept").is_some_and(|kinds| kinds.contains(OPEN));
    let kind = match is_open {
        true => format!("Content-Type: {OPEN}; version=1.0.0; charset=utf-8\r\n"),
        false => "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n".to_owned(),
    };
    answer(&client, "200 OK", &kind, &metrics.text(is_open))
}

/// The head of a request; `None` if it is too long, no text, or does not come.
fn request(client: &mut TcpStream) -> io::Result<Option<String>> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut some = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if bytes.len() > REQUEST_MAX || left.is_zero() {
            return Ok(None);
        }
        client.set_read_timeout(Some(left))?;
        match client.read(&mut some)? {
            0 => return Ok(None),
            count => bytes.extend_from_slice(&some[..count]),
        }
    }
    Ok(String::from_utf8(bytes).ok())
}

fn answer(mut client: &TcpStream, status: &str, head: &str, body: &str) -> io::Result<()> {
    let kind = if head.contains("Content-Type") { "" } else { "Content-Type: text/plain\r\n" };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\n{head}{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    // A client that reads a byte now and then must not stay for ever.
    let until = Instant::now() + PATIENCE;
    let mut rest = text.as_bytes();
    while !rest.is_empty() && Instant::now() < until {
        match client.write(rest)? {
            0 => break,
            count => rest = &rest[count..],
        }
    }
    Ok(())
}
