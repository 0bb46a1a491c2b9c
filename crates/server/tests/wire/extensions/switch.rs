//! How extensions are requested, and who may see the settings of a table.

use super::{asking, token};
use crate::harness::{Lazuli, Request};
use lazuli_server::{ExtensionsMode, FrontOptions};

const SETTINGS: [&str; 3] = ["lazuli-indexes", "lazuli-ttl", "lazuli-feed"];

fn server(extensions: ExtensionsMode) -> Lazuli {
    let lazuli = Lazuli::with_options(FrontOptions { extensions, ..FrontOptions::default() });
    lazuli.create_table("Orders");
    lazuli
}

///
#[test]
fn other_values_of_the_header_are_refused() {
    let lazuli = server(ExtensionsMode::Asked);
    for value in ["on", "off", ""] {
        lazuli.send(&Request::new("GET", "/Orders").with("x-lazuli-extensions", value)).expect(200);
    }
    for value in ["yes", "On", "1", "on, on"] {
        let request = Request::new("GET", "/Orders").with("x-lazuli-extensions", value);
        lazuli.send(&request).refused(400, "InvalidHeaderValue", "x-lazuli-extensions");
    }
}

/// two lines of a header are one value, which is none of the known ones.
#[test]
fn repeated_headers_are_refused() {
    let lazuli = server(ExtensionsMode::Asked);
    for (first, second) in [("on", "on"), ("on", "off"), ("off", "on"), ("", "on")] {
        let request = Request::new("GET", "/Orders").with("x-lazuli-extensions", first);
        let request = request.also("x-lazuli-extensions", second);
        lazuli.send(&request).refused(400, "InvalidHeaderValue", "x-lazuli-extensions");
    }
    for (header, values) in [
        ("x-lazuli-explain", ["plan", "run"]),
        ("x-lazuli-snapshot", ["new", "new"]),
        ("x-lazuli-transaction", ["any", "any"]),
    ] {
        let twice = |request: Request| request.with(header, values[0]).also(header, values[1]);
        lazuli.send(&twice(asking("GET", "/Orders"))).refused(400, "InvalidHeaderValue", "once");
        // Without extensions, they are unknown headers.
        lazuli.send(&twice(Request::new("GET", "/Orders"))).expect(200);
    }
}

///
#[test]
fn a_server_without_extensions_refuses_whoever_asks() {
    let lazuli = server(ExtensionsMode::Never);
    lazuli.get("/Orders").expect(200);
    lazuli.ask("/Orders").refused(400, "InvalidHeaderValue", "--extensions never");
}

///
#[test]
fn settings_do_not_exist_for_those_who_do_not_ask() {
    let lazuli = server(ExtensionsMode::Asked);
    for setting in SETTINGS {
        let target = format!("/Orders?comp={setting}");
        for target in [target.replace(setting, "nonsense"), target] {
            lazuli.get(&target).refused(400, "InvalidQueryParameterValue", "<m:error");
        }
    }
}

/// a server with `--extensions always` needs no header.
#[test]
fn a_server_can_count_every_request_as_asking() {
    let lazuli = server(ExtensionsMode::Always);
    for setting in SETTINGS {
        let missing = format!("/Missing?comp={setting}");
        lazuli.get(&missing).refused(404, "TableNotFound", "{\"odata.error\"");
    }
}

///
#[test]
fn a_token_for_a_range_of_keys_sees_no_settings() {
    let lazuli = server(ExtensionsMode::Asked);
    for setting in SETTINGS {
        let target = format!("/Orders?comp={setting}");
        let with = |range, permissions, method| {
            let token = token(permissions, range);
            lazuli.send(&asking(method, &target).json("{}").sas(&token))
        };
        with(Some(("a", "b")), "raud", "GET").refused(403, "AuthorizationFailure", "");
        with(None, "aud", "GET").refused(403, "AuthorizationPermissionMismatch", "");
        for method in ["PUT", "DELETE"] {
            with(None, "raud", method).refused(403, "AuthorizationFailure", "");
        }
    }
}
