//! Writes batches: the service's responses byte for byte (T-6.26 to T-6.28), and requests.

/// Writes one batch into a buffer: [`BatchWriter::finish`] must be called after the last part.
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

    /// Begins a request of one change set.
    pub fn request_change_set(out: &'o mut Vec<u8>, batch_id: &str, change_set_id: &str) -> Self {
        let batch = format!("batch_{batch_id}");
        Self::begin(out, batch, Some(format!("changeset_{change_set_id}")))
    }

    /// Goes on with the request that [`BatchWriter::request_change_set`] began in `out`, with the same ids.
    pub fn continue_change_set(out: &'o mut Vec<u8>, batch_id: &str, change_set_id: &str) -> Self {
        let change_set = Some(format!("changeset_{change_set_id}"));
        Self { out, batch: format!("batch_{batch_id}"), change_set }
    }

    /// The bytes that [`BatchWriter::finish`] will add.
    pub fn closing_bytes(&self) -> usize {
        let boundaries = self.change_set.iter().chain([&self.batch]);
        boundaries.map(|boundary| boundary.len() + "----\r\n".len()).sum()
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
        let line = [b"HTTP/1.1 ", &digits[..], b" ", reason(status).as_bytes()];
        self.part(&line, headers, body);
    }

    /// Adds a request.
    pub fn request<'h>(
        &mut self,
        method: &str,
        target: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) {
        let line = [method.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1"];
        self.part(&line, headers, body);
    }

    /// Closes change set and batch, without a blank line in between (T-6.28).
    pub fn finish(self) {
        for boundary in self.change_set.iter().chain([&self.batch]) {
            write_all(self.out, &[b"--", boundary.as_bytes(), b"--\r\n"]);
        }
    }

    fn begin(out: &'o mut Vec<u8>, batch: String, change_set: Option<String>) -> Self {
        if let Some(inner) = &change_set {
            let content_type = b"\r\nContent-Type: multipart/mixed; boundary=";
            write_all(out, &[b"--", batch.as_bytes(), content_type, inner.as_bytes(), b"\r\n\r\n"]);
        }
        Self { out, batch, change_set }
    }

    fn part<'h>(
        &mut self,
        first_line: &[&[u8]],
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
        body: &[u8],
    ) {
        let boundary = self.change_set.as_ref().unwrap_or(&self.batch);
        let mime =
            b"\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n";
        write_all(self.out, &[b"--", boundary.as_bytes(), mime]);
        write_all(self.out, first_line);
        self.out.extend_from_slice(b"\r\n");
        for (name, value) in headers {
            write_all(self.out, &[name.as_bytes(), b": ", value, b"\r\n"]);
        }
        write_all(self.out, &[b"\r\n", body, b"\r\n"]);
    }
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
