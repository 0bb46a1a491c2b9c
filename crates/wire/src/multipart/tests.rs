use super::*;
use proptest::prelude::*;

/// A change set as the official JavaScript client writes it, blank lines and all: js
/// browsers.batch_operations.recording_should_send_a_set_of_delete_batch_operations, shortened.
const JAVASCRIPT: &str = "--batch_fakeId\r\n\
    content-type: multipart/mixed; boundary=changeset_fakeId\r\n\r\n\r\n\
    --changeset_fakeId\r\n\
    content-type: application/http\r\n\
    content-transfer-encoding: binary\r\n\r\n\
    PATCH https://account.table.core.windows.net/t(PartitionKey='p',RowKey='1') HTTP/1.1\r\n\
    If-Match:*\r\n\r\n\r\n\
    {\"a\":1}\r\n\
    --changeset_fakeId\r\n\
    content-type: application/http\r\n\
    content-transfer-encoding: binary\r\n\r\n\
    DELETE https://account.table.core.windows.net/t(PartitionKey='p',RowKey='2') HTTP/1.1\r\n\
    If-Match: *\r\n\r\n\r\n\
    --changeset_fakeId--\r\n\
    --batch_fakeId--\r\n";

/// Bare line feeds, Content-ID among the inner headers, no line break at the end: storage-python
/// test_table_batch.test_batch_reuse, shortened.
const LINE_FEEDS: &str = "--batch_1\n\
    Content-Type: multipart/mixed; boundary=changeset_1\n\n\
    --changeset_1\n\
    Content-Type: application/http\n\
    Content-Transfer-Encoding: binary\n\n\
    POST /t HTTP/1.1\n\
    Content-ID: 0\n\
    Prefer: return-no-content\n\
    Content-Length: 99\n\n\
    {\"RowKey\":\"a\"}\n\n\
    --changeset_1\n\
    Content-Type: application/http\n\
    Content-Transfer-Encoding: binary\n\n\
    DELETE /t(PartitionKey='003',RowKey='b') HTTP/1.1\n\
    Content-ID: 1\n\
    If-Match: *\n\n\
    --changeset_1--\n--batch_1--";

#[track_caller]
fn changes<'a>(body: &'a str, boundary: &str) -> Vec<Part<'a>> {
    match parse_batch(body.as_bytes(), boundary).unwrap() {
        BatchBody::ChangeSet(parts) => parts,
        BatchBody::Query(part) => panic!("a query of {}", part.target),
    }
}

#[track_caller]
fn check_part(part: &Part<'_>, method: &str, target: &str, body: &str) {
    let text = str::from_utf8(part.body).unwrap().trim_end();
    assert_eq!((part.method, part.target, text), (method, target, body));
}

#[track_caller]
fn check_refused(body: &str, expect: MultipartError) {
    assert_eq!(parse_batch(body.as_bytes(), "b").map(|_| ()), Err(expect));
}

#[test]
fn surplus_blank_lines_are_skipped() {
    let parts = changes(JAVASCRIPT, "batch_fakeId");
    assert_eq!(parts.len(), 2);
    let base = "https://account.table.core.windows.net/t";
    check_part(&parts[0], "PATCH", &format!("{base}(PartitionKey='p',RowKey='1')"), "{\"a\":1}");
    check_part(&parts[1], "DELETE", &format!("{base}(PartitionKey='p',RowKey='2')"), "");
    assert_eq!(parts[0].header("if-match"), Some("*"));
}

#[test]
fn line_feeds_alone_end_lines() {
    let parts = changes(LINE_FEEDS, "batch_1");
    check_part(&parts[0], "POST", "/t", "{\"RowKey\":\"a\"}");
    check_part(&parts[1], "DELETE", "/t(PartitionKey='003',RowKey='b')", "");
    assert_eq!(parts[1].header("Content-ID"), Some("1"));
    assert_eq!(parts[0].headers.iter().filter(|(name, _)| *name == "Prefer").count(), 1);
    assert_eq!(parts[0].header("If-Match"), None);
}

/// `azure_data_tables` 0.21 never writes the closing delimiter of the batch.
#[test]
fn a_last_opening_delimiter_closes_the_batch() {
    let body = LINE_FEEDS.replace("--batch_1--", "--batch_1\n");
    assert_eq!(changes(&body, "batch_1").len(), 2);
    check_refused("--b\n", MultipartError::Unterminated);
    check_refused(&query("GET"), MultipartError::Unterminated);
}

#[test]
fn preamble_epilogue_and_blanks_after_a_delimiter_do_not_count() {
    let body = JAVASCRIPT.replace("--changeset_fakeId\r\n", "--changeset_fakeId \t\r\n");
    let body = format!("preamble --batch_fakeId\r\n{body}epilogue\r\n--batch_fakeId");
    assert_eq!(changes(&body, "batch_fakeId").len(), 2);
}

#[test]
fn a_delimiter_has_a_line_to_itself() {
    let body =
        JAVASCRIPT.replace("{\"a\":1}", "{\"a\":\"x--changeset_fakeId\"}\r\n--changeset_fakeId2");
    let parts = changes(&body, "batch_fakeId");
    let kept = "{\"a\":\"x--changeset_fakeId\"}\r\n--changeset_fakeId2";
    assert_eq!(str::from_utf8(parts[0].body).unwrap(), kept);
}

#[test]
fn targets_may_hold_spaces_and_percent_signs() {
    let target = "t(PartitionKey='100% HTTP/1.1',RowKey='a b')";
    let body = LINE_FEEDS.replace("/t(PartitionKey='003',RowKey='b')", target);
    check_part(&changes(&body, "batch_1")[1], "DELETE", target, "");
}

#[test]
fn boundaries_are_found_in_content_types() {
    let check = |text, expect| assert_eq!(boundary(text), expect, "{text}");
    check("multipart/mixed; boundary=batch_a1", Some("batch_a1"));
    check("Multipart/Mixed;charset=utf-8;BOUNDARY=\"batch a1\"", Some("batch a1"));
    check("multipart/mixed", None);
    check("multipart/mixed; boundary=", None);
    check("application/json; boundary=a", None);
}

fn query(method: &str) -> String {
    format!("--b\r\nContent-Type: application/http\r\n\r\n{method} /t() HTTP/1.1\r\n\r\n\r\n")
}

fn change_set(parts: usize) -> String {
    let part = "--c\r\nContent-Type: application/http\r\n\r\nPOST /t HTTP/1.1\r\n\r\n{}\r\n";
    let parts = part.repeat(parts);
    format!("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n{parts}--c--\r\n")
}

#[test]
fn a_lone_get_is_a_query() {
    let body = query("GET") + "--b--\r\n";
    match parse_batch(body.as_bytes(), "b").unwrap() {
        BatchBody::Query(part) => check_part(&part, "GET", "/t()", ""),
        BatchBody::ChangeSet(_) => panic!("a change set"),
    }
}

#[test]
fn tr_75_a_query_and_a_change_set_must_each_be_alone() {
    let end = "--b--";
    check_refused(&(query("GET") + &query("GET") + end), MultipartError::SeveralQueries);
    check_refused(&(query("GET") + &change_set(1) + end), MultipartError::QueryWithChanges);
    check_refused(&(change_set(1) + &query("GET") + end), MultipartError::QueryWithChanges);
    check_refused(&(change_set(1) + &change_set(1) + end), MultipartError::SeveralChangeSets);
    check_refused(&(query("POST") + end), MultipartError::ChangeOutsideChangeSet);
    check_refused("--b--\r\n", MultipartError::Empty);
}

#[test]
fn one_operation_too_many_is_kept_and_no_more() {
    for (sent, kept) in [(100, 100), (101, 101), (102, 101), (5000, 101)] {
        let body = change_set(sent) + "--b--";
        assert_eq!(changes(&body, "b").len(), kept);
    }
}

/// Request and response of storage-python test_table_entity.test_query_zero_entities.
#[test]
fn an_empty_change_set_is_answered_with_an_empty_one() {
    let body = "--batch_1\nContent-Type: multipart/mixed; boundary=changeset_1\n\n\
                --changeset_1--\n--batch_1--";
    assert!(changes(body, "batch_1").is_empty());
    let mut out = Vec::new();
    BatchWriter::answer_change_set(&mut out, "4", "a").finish();
    let expect = "--batchresponse_4\r\n\
        Content-Type: multipart/mixed; boundary=changesetresponse_a\r\n\r\n\
        --changesetresponse_a--\r\n--batchresponse_4--\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn what_is_no_batch_is_refused() {
    check_refused("", MultipartError::Unterminated);
    check_refused("--a\r\n--a--", MultipartError::Unterminated);
    check_refused(&change_set(1), MultipartError::Unterminated);
    let with = |from: &str, to: &str| change_set(1).replace(from, to) + "--b--";
    check_refused(&with("boundary=c", ""), MultipartError::NoBoundary);
    check_refused(&with("multipart/mixed", "text/plain"), MultipartError::UnknownPart);
    check_refused(&with("application/http", "application/json"), MultipartError::UnknownPart);
    check_refused(
        &with("Content-Type: application", "Content-Type"),
        MultipartError::MalformedHeader,
    );
    check_refused(&with("--c--", "--d--"), MultipartError::Unterminated);
    for line in ["POST /t", "POST /t HTTP/2", "/t HTTP/1.1", "POST HTTP/1.1", "P? /t HTTP/1.1"] {
        check_refused(&with("POST /t HTTP/1.1", line), MultipartError::MalformedRequestLine);
    }
    let long = format!("POST /t HTTP/1.1\r\nx:{}", "y".repeat(HEADERS_BYTES_MAX));
    check_refused(&with("POST /t HTTP/1.1", &long), MultipartError::HeadersTooLarge);
}

/// The separators of T-6.27 and T-6.28, as in python test_table_batch.test_batch_with_mode.
#[test]
fn answers_are_written_as_recorded() {
    let mut out = Vec::new();
    let mut writer = BatchWriter::answer_change_set(&mut out, "3f", "9c");
    assert_eq!(writer.content_type(), "multipart/mixed; boundary=batchresponse_3f");
    let headers: [(&str, &[u8]); 2] =
        [("Cache-Control", b"no-cache"), ("DataServiceVersion", b"1.0;")];
    writer.response(204, headers, b"");
    writer.response(201, [("ETag", &b"W/\"x\""[..])], b"{\"a\":1}");
    writer.finish();
    let expect = "--batchresponse_3f\r\n\
        Content-Type: multipart/mixed; boundary=changesetresponse_9c\r\n\r\n\
        --changesetresponse_9c\r\n\
        Content-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\
        Cache-Control: no-cache\r\n\
        DataServiceVersion: 1.0;\r\n\r\n\r\n\
        --changesetresponse_9c\r\n\
        Content-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n\
        HTTP/1.1 201 Created\r\n\
        ETag: W/\"x\"\r\n\r\n\
        {\"a\":1}\r\n\
        --changesetresponse_9c--\r\n\
        --batchresponse_3f--\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn an_answer_to_a_query_has_no_change_set() {
    let mut out = Vec::new();
    let mut writer = BatchWriter::answer_query(&mut out, "3f");
    writer.response(404, [("Cache-Control", &b"no-cache"[..])], b"{}");
    writer.finish();
    let expect = "--batchresponse_3f\r\n\
        Content-Type: application/http\r\n\
        Content-Transfer-Encoding: binary\r\n\r\n\
        HTTP/1.1 404 Not Found\r\n\
        Cache-Control: no-cache\r\n\r\n\
        {}\r\n\
        --batchresponse_3f--\r\n";
    assert_eq!(str::from_utf8(&out).unwrap(), expect);
    let parts = parse_batch_response(&out, "batchresponse_3f").unwrap();
    let (_, body) = parts[0].split().unwrap();
    assert_eq!((parts.len(), parts[0].status, body), (1, 404, &b"{}"[..]));
}

#[test]
fn status_lines_hold_three_digits() {
    assert_eq!(status_line(b"HTTP/1.1 204 No Content"), Some(204));
    assert_eq!(status_line(b"HTTP/1.1 204"), Some(204));
    for line in ["", "HTTP/1.1 20", "HTTP/1.1 2040", "HTTP/1.1 +20 x", "204 OK"] {
        assert_eq!(status_line(line.as_bytes()), None, "{line}");
    }
}

proptest! {
    /// Repeated headers are not parsed again, and must not be confused with others.
    #[test]
    fn headers_after_others_are_read_as_if_alone(
        texts in prop::collection::vec("(a:1\r?\n|b:2\r?\n){0,3}(\r?\n){0,3}(a:1|x)?", 1..6),
    ) {
        let mut reader = HeaderReader::default();
        for text in &texts {
            let (headers, rest) = split_headers(text.as_bytes()).unwrap_or_default();
            let read = reader.split_headers(text.as_bytes()).unwrap_or_default();
            prop_assert_eq!(read, (headers, rest));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse_batch(&body, "b");
        let _ = boundary(&String::from_utf8_lossy(&body));
    }

    #[test]
    fn arbitrary_lines_never_panic(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "--b", "--b--", "--c", "--c--", "", "x:y", "POST /t HTTP/1.1", "HTTP/1.1 204 x",
                "Content-Type: multipart/mixed; boundary=c", "Content-Type: application/http", "{}",
            ]),
            0..24,
        ),
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let body = lines.join(end);
        let _ = parse_batch(body.as_bytes(), "b");
        for part in parse_batch_response(body.as_bytes(), "b").unwrap_or_default() {
            let _ = part.split();
        }
    }

    #[test]
    fn written_requests_parse_back(
        operations in prop::collection::vec(("[A-Z]{1,6}", "/[a-z' %]{0,8}x", "[a-z*\"]{1,8}", "\\{[^\r\n]{0,16}\\}"), 1..5),
    ) {
        let mut out = Vec::new();
        let writer = BatchRequest::new("1", "2");
        writer.begin(&mut out);
        for (method, target, value, body) in &operations {
            let append = |text: &str| {
                let text = text.to_owned();
                move |out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes())
            };
            let headers = [("If-Match", value.as_bytes())];
            writer.part(&mut out, method, append(target), headers, append(body));
        }
        let open = out.len();
        writer.finish(&mut out);
        prop_assert_eq!(out.len() - open, writer.closing_bytes());
        let body = String::from_utf8(out).unwrap();
        let parts = changes(&body, "batch_1");
        prop_assert_eq!(parts.len(), operations.len());
        for (part, (method, target, value, body)) in parts.iter().zip(&operations) {
            prop_assert_eq!((part.method, part.target), (method.as_str(), target.as_str()));
            prop_assert_eq!(part.header("if-match"), Some(value.as_str()));
            prop_assert_eq!(part.body, body.as_bytes());
        }
    }

    #[test]
    fn written_answers_parse_back(
        answers in prop::collection::vec((200u16..600, "[a-z*\"]{1,8}", "(\\{[^\r\n]{0,16}\\})?"), 1..5),
    ) {
        let mut out = Vec::new();
        let mut writer = BatchWriter::answer_change_set(&mut out, "1", "2");
        for (status, value, body) in &answers {
            writer.response(*status, [("ETag", value.as_bytes())], body.as_bytes());
        }
        writer.finish();
        let parts = parse_batch_response(&out, "batchresponse_1").unwrap();
        prop_assert_eq!(parts.len(), answers.len());
        for (part, (status, value, body)) in parts.iter().zip(&answers) {
            let (headers, content) = part.split().unwrap();
            prop_assert_eq!((part.status, content), (*status, body.as_bytes()));
            prop_assert_eq!(headers.get("etag"), Some(value.as_str()));
        }
    }
}

#[test]
fn a_response_that_says_done_of_all_is_told_without_parsing() {
    let mut out = Vec::new();
    let mut writer = BatchWriter::answer_change_set(&mut out, "b", "c");
    writer.response(204, [("ETag", &b"W/\"1\""[..])], b"");
    writer.response(201, [], b"{\"Text\":\"HTTP/1.1 409 \\nHTTP/1.1 409\"}");
    writer.finish();
    assert!(is_all_done(&out, 2));
    assert!(!is_all_done(&out, 1) && !is_all_done(&out, 3));
    // A value that looks like a status line: it must be parsed.
    let mut out = Vec::new();
    let mut writer = BatchWriter::answer_change_set(&mut out, "b", "c");
    writer.response(201, [], b"x\nHTTP/1.1 200 OK");
    writer.finish();
    assert!(!is_all_done(&out, 1));
    let mut out = Vec::new();
    let mut writer = BatchWriter::answer_change_set(&mut out, "b", "c");
    writer.response(409, [], b"{}");
    writer.finish();
    assert!(!is_all_done(&out, 1));
}

#[test]
fn a_part_with_the_head_of_another_is_written_like_it() {
    let request = BatchRequest::new("b", "c");
    let (mut out, mut whole) = (Vec::new(), Vec::new());
    let target = |out: &mut Vec<u8>| out.extend_from_slice(b"/T");
    let headers = || [("Accept", &b"application/json"[..])];
    let mut head = 0..0;
    request.part(&mut out, "POST", target, headers(), |out| {
        head.end = out.len();
        out.extend_from_slice(b"{}");
    });
    request.part_like(&mut out, head, |out| out.extend_from_slice(b"{1}"));
    for body in [&b"{}"[..], b"{1}"] {
        request.part(&mut whole, "POST", target, headers(), |out| out.extend_from_slice(body));
    }
    assert_eq!(out, whole);
}
