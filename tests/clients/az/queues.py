"""`az storage queue` and `az storage message`. az sends texts as they are given."""

from harness import case, equal, fresh_name, refused


@case
def queues_are_created_listed_and_deleted(run):
    queue = ("storage", "queue")
    stem = fresh_name("az")
    names = [f"{stem}-{number}" for number in range(3)]
    for name in names:
        equal(run(*queue, "create", "--name", name, "--metadata", f"last={name[-1]}"), {"created": True})
    equal(run(*queue, "create", "--name", names[0]), {"created": False})
    refused("The specified queue already exists.", lambda: run(*queue, "create", "--name", names[0], "--fail-on-exist"))
    listed = run(*queue, "list", "--prefix", stem, "--include-metadata")
    equal([(item["name"], item["metadata"]) for item in listed], [(name, {"last": name[-1]}) for name in names])
    page = run(*queue, "list", "--prefix", stem, "--num-results", "2", "--show-next-marker")
    equal([item["name"] for item in page if "name" in item], names[:2])
    rest = run(*queue, "list", "--prefix", stem, "--marker", page[-1]["nextMarker"])
    equal([item["name"] for item in rest], names[2:])
    run(*queue, "metadata", "update", "--name", names[0], "--metadata", "color=blue")
    equal(run(*queue, "metadata", "show", "--name", names[0]), {"color": "blue"})
    for name in names:
        equal(run(*queue, "delete", "--name", name), {"deleted": True})
    equal(run(*queue, "exists", "--name", names[0]), {"exists": False})
    refused("The specified queue does not exist.", lambda: run(*queue, "delete", "--name", names[0], "--fail-not-exist"))
    refused("The specifed resource name contains invalid characters.", lambda: run(*queue, "create", "--name", "Upper"))


@case
def messages_are_put_got_updated_and_deleted(run, queue):
    message = ("storage", "message")
    at = ("--queue-name", queue)
    text = "<tag>&amp; 'ô' 😀</tag>"
    put = run(*message, "put", *at, "--content", text, "--time-to-live", "-1")
    assert put["expirationTime"].startswith("9999-12-31T23:59:59"), put
    (seen,) = run(*message, "peek", *at)
    equal((seen["id"], seen["content"], seen["dequeueCount"]), (put["id"], text, 0))
    (got,) = run(*message, "get", *at, "--visibility-timeout", "600")
    equal((got["id"], got["content"], got["dequeueCount"]), (put["id"], text, 1))
    equal(run(*message, "peek", *at), [])
    hold = ("--id", got["id"], "--pop-receipt")
    new = run(*message, "update", *at, *hold, got["popReceipt"], "--content", "second", "--visibility-timeout", "0")
    refused("The specified message does not exist.", lambda: run(*message, "delete", *at, *hold, got["popReceipt"]))
    refused("Invalid pop receipt format", lambda: run(*message, "delete", *at, *hold, "invalid"))
    run(*message, "delete", *at, *hold, new["popReceipt"])
    run(*message, "put", *at, "--content", "late", "--visibility-timeout", "600")
    run(*message, "put", *at, "--content", "now")
    equal([item["content"] for item in run(*message, "get", *at, "--num-messages", "32")], ["now"])
    run(*message, "clear", *at)
    equal(run(*message, "get", *at), [])


@case
def queue_policies_are_kept_and_tokens_open_what_they_say(run, stranger, queue):
    policy = ("storage", "queue", "policy")
    at = ("--queue-name", queue)
    run(*policy, "create", *at, "--name", "reader", "--permissions", "r", "--expiry", "2099-01-01T00:00Z")
    kept = run(*policy, "list", *at)["reader"]
    equal(kept["permission"], "r")
    assert kept["expiry"].startswith("2099-01-01T00:00:00"), kept
    run("storage", "message", "put", *at, "--content", "x")
    token = run("storage", "queue", "generate-sas", "--name", queue, "--policy-name", "reader")
    peek = lambda: stranger("storage", "message", "peek", *at, "--sas-token", token)  # noqa: E731
    equal([item["content"] for item in peek()], ["x"])
    # az puts words of its own in the place of ours.
    refused("You do not have the required permissions", lambda: stranger("storage", "message", "get", *at, "--sas-token", token))
    run(*policy, "update", *at, "--name", "reader", "--permissions", "a")
    equal(run(*policy, "show", *at, "--name", "reader")["permission"], "a")
    refused("You do not have the required permissions", peek)
    run(*policy, "delete", *at, "--name", "reader")
    equal(run(*policy, "list", *at), {})


@case
def settings_and_statistics_of_the_queue_service(run):
    of_queues = ("--services", "q")
    run("storage", "cors", "add", *of_queues, "--methods", "GET", "PUT", "--origins", "http://a", "--max-age", "5")
    rule, = run("storage", "cors", "list", *of_queues)
    equal((rule["AllowedMethods"], rule["AllowedOrigins"], rule["MaxAgeInSeconds"]), ("GET, PUT", "http://a", 5))
    run("storage", "cors", "clear", *of_queues)
    equal(run("storage", "cors", "list", *of_queues), [])
    run("storage", "logging", "update", *of_queues, "--log", "rw", "--retention", "5")
    logging = run("storage", "logging", "show", *of_queues)["queue"]
    equal((logging["read"], logging["write"], logging["delete"]), (True, True, False))
    run("storage", "logging", "off", *of_queues)
    run("storage", "metrics", "update", *of_queues, "--hour", "true", "--api", "true", "--retention", "5")
    hour = run("storage", "metrics", "show", *of_queues)["queue"]["hour"]
    equal((hour["enabled"], hour["includeApis"], hour["retentionPolicy"]["days"]), (True, True, 5))
    run("storage", "metrics", "update", *of_queues, "--hour", "false", "--retention", "0")
    replication = run("storage", "queue", "stats")["geoReplication"]
    equal(replication["status"], "live")
    assert replication["lastSyncTime"], replication
