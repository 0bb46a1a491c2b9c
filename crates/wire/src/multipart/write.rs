//! Writes batches: the service's responses byte for byte (T-6.26 to T-6.28), and requests.

/// What follows the delimiter of every part.
const MIME: &[u8] =
    b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";

/// Writes one response into a buffer: [`BatchWriter::finish`] must be called after the last part.
pub struct BatchWriter<'o> {
    out: &'o mut Vec<u8>,
    batch: String,
    /// `None` if the batch is one query.
    change_set: Option<String>,
}

impl<'o> BatchWriter<'o> {
    /// Begins the response to a change set. The ids are fresh GUIDs.
    pub fn answer_change_set(out: &'o mut Vec<u8>, batch_id: &str, change_set_id: &str) -> Self {
        let batch = format!("batchresponse_{batch_id}");
        Self::begin(out, batch, Some(format!("changesetresponse_{change_set_id}")))
    }

    /// Begins the response to a query, which has no change set around it (T-6.54).
    pub fn answer_query(out: &'o mut Vec<u8>, batch_id: &str) -> Self {
        Self::begin(out, format!("batchresponse_{batch_id}"), None)
    }

    /// The Content-Type of the message whose body this is.
    pub fn content_type(&self) -> String {
        format!("multipart/mixed; boundary={}", self.batch)
    }

    /// Adds a response; the headers are written in the given order.
    pub fn response<'h>(
        &mut self,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) {
        let digits = [status / 100, status / 10, status].map(|n| b'0' + (n % 10) as u8);
        let boundary = self.change_set.as_ref().unwrap_or(&self.batch);
        write_all(self.out, &[b"--", boundary.as_bytes(), MIME]);
        write_all(self.out, &[b"HTTP/1.1 ", &digits, b" ", reason(status).as_bytes(), b"\r\n"]);
        write_headers(self.out, headers);
        write_all(self.out, &[body, b"\r\n"]);
    }

    /// Closes change set and batch, without a blank line in between (T-6.28).
    pub fn finish(self) {
        for boundary in self.change_set.iter().chain([&self.batch]) {
            write_all(self.out, &[b"--", boundary.as_bytes(), b"--\r\n"]);
        }
    }

    fn begin(out: &'o mut Vec<u8>, batch: String, change_set: Option<String>) -> Self {
        if let Some(inner) = &change_set {
            begin_change_set(out, &batch, inner);
        }
        Self { out, batch, change_set }
    }
}

/// Writes a request of one change set. It holds no buffer: the caller may write parts elsewhere first, and
/// knows the size of the request after each.
#[derive(Debug)]
pub struct BatchRequest {
    batch: String,
    change_set: String,
}

impl BatchRequest {
    /// The ids are fresh GUIDs.
    pub fn new(batch_id: &str, change_set_id: &str) -> Self {
        let change_set = format!("changeset_{change_set_id}");
        Self { batch: format!("batch_{batch_id}"), change_set }
    }

    /// The Content-Type of the message whose body this is.
    pub fn content_type(&self) -> String {
        format!("multipart/mixed; boundary={}", self.batch)
    }

    /// Writes everything before the first part.
    pub fn begin(&self, out: &mut Vec<u8>) {
        begin_change_set(out, &self.batch, &self.change_set);
    }

    /// Writes one part. `target` and `body` append theirs.
    pub fn part<'h>(
        &self,
        out: &mut Vec<u8>,
        method: &str,
        target: impl FnOnce(&mut Vec<u8>),
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        write_all(out, &[b"--", self.change_set.as_bytes(), MIME, method.as_bytes(), b" "]);
        target(out);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        write_headers(out, headers);
        body(out);
        out.extend_from_slice(b"\r\n");
    }

    /// Writes one part whose head is already in the buffer: everything of another part from its delimiter to
    /// its body.
    pub fn part_like(
        &self,
        out: &mut Vec<u8>,
        head: std::ops::Range<usize>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        out.extend_from_within(head);
        body(out);
        out.extend_from_slice(b"\r\n");
    }

    /// The bytes that [`BatchRequest::finish`] will add.
    pub fn closing_bytes(&self) -> usize {
        self.change_set.len() + self.batch.len() + 2 * "----\r\n".len()
    }

    /// Writes everything after the last part.
    pub fn finish(&self, out: &mut Vec<u8>) {
        for boundary in [&self.change_set, &self.batch] {
            write_all(out, &[b"--", boundary.as_bytes(), b"--\r\n"]);
        }
    }
}

fn begin_change_set(out: &mut Vec<u8>, batch: &str, change_set: &str) {
    let content_type = b"\r\nContent-Type: multipart/mixed; boundary=";
    let pieces = [b"--", batch.as_bytes(), content_type, change_set.as_bytes(), b"\r\n\r\n"];
    write_all(out, &pieces);
}

/// Headers, and the blank line that ends them.
fn write_headers<'h>(out: &mut Vec<u8>, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) {
    for (name, value) in headers {
        write_all(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
    }
    out.extend_from_slice(b"\r\n");
}

fn write_all(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// The reason phrase of every status that a part can have.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        415 => "Unsupported Media Type",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Unknown",
    }
}
