"""The az command line: `az storage table` and `az storage entity` here, queues in `queues.py`.

Every call starts a new process of about a second, so the cases are few and long.
"""

from harness import case, equal, fresh_name, main, refused, supplies
import queues  # noqa: F401  (it registers its cases)


def plain(entity):
    added = ("etag", "Timestamp", "odata.metadata", "odata.etag")
    return {name: value for name, value in entity.items() if name not in added}


@case
def tables_are_created_listed_and_deleted(run):
    name = fresh_name("Az")
    equal(run("storage", "table", "create", "--name", name), {"created": True})
    run("storage", "table", "create", "--name", name)
    refused("The table specified already exists.", lambda: run("storage", "table", "create", "--name", name, "--fail-on-exist"))
    equal(run("storage", "table", "exists", "--name", name), {"exists": True})
    assert name in [item["name"] for item in run("storage", "table", "list")]
    equal(run("storage", "table", "delete", "--name", name), {"deleted": True})
    equal(run("storage", "table", "exists", "--name", name), {"exists": False})


@case
def entities_are_written_read_and_deleted(run, table):
    entity = ("storage", "entity")
    keys = ("--partition-key", "p", "--row-key", "r")
    typed = ("name=x", "n=5", "n@odata.type=Edm.Int32", "ok=true", "ok@odata.type=Edm.Boolean")
    at = ("--table-name", table)
    run(*entity, "insert", *at, "--entity", "PartitionKey=p", "RowKey=r", *typed)
    refused("The specified entity already exists.", lambda: run(*entity, "insert", *at, "--entity", "PartitionKey=p", "RowKey=r"))
    expected = {"PartitionKey": "p", "RowKey": "r", "name": "x", "n": 5, "ok": True}
    equal(plain(run(*entity, "show", *at, *keys)), expected)
    run(*entity, "merge", *at, "--entity", "PartitionKey=p", "RowKey=r", "name=y", "more=z")
    equal(plain(run(*entity, "show", *at, *keys)), {**expected, "name": "y", "more": "z"})
    run(*entity, "replace", *at, "--entity", "PartitionKey=p", "RowKey=r", "only=a")
    equal(plain(run(*entity, "show", *at, *keys)), {"PartitionKey": "p", "RowKey": "r", "only": "a"})
    run(*entity, "insert", *at, "--if-exists", "merge", "--entity", "PartitionKey=p", "RowKey=s", "only=b")
    found = run(*entity, "query", *at, "--filter", "only gt 'a'")
    equal([plain(item) for item in found["items"]], [{"PartitionKey": "p", "RowKey": "s", "only": "b"}])
    stale = ("--if-match", "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"")
    refused("The update condition specified in the request was not satisfied.", lambda: run(*entity, "delete", *at, *keys, *stale))
    run(*entity, "delete", *at, *keys)
    refused("The specified resource does not exist.", lambda: run(*entity, "show", *at, *keys))


@case
def queries_are_paged(run, table):
    at = ("--table-name", table)
    for row in ["1", "2", "3"]:
        run("storage", "entity", "insert", *at, "--entity", "PartitionKey=p", f"RowKey={row}")
    page = run("storage", "entity", "query", *at, "--num-results", "2")
    equal([item["RowKey"] for item in page["items"]], ["1", "2"])
    marker = [f"{name.lower()}={value}" for name, value in page["nextMarker"].items()]
    rest = run("storage", "entity", "query", *at, "--num-results", "2", "--marker", *marker)
    equal([item["RowKey"] for item in rest["items"]], ["3"])


@case
def statistics_are_told_by_the_secondary(run):
    replication = run("storage", "table", "stats")["geoReplication"]
    equal(replication["status"], "live")
    assert replication["lastSyncTime"], replication


@case
def policies_are_kept_and_tokens_open_what_they_say(run, stranger, table):
    policy = ("storage", "table", "policy")
    at = ("--table-name", table)
    expiry = "2099-01-01T00:00:00+00:00"
    run(*policy, "create", *at, "--name", "reader", "--permissions", "r", "--expiry", "2099-01-01T00:00Z")
    kept = {"expiry": expiry, "permission": "r", "start": None}
    equal(run(*policy, "list", *at), {"reader": kept})
    run("storage", "entity", "insert", *at, "--entity", "PartitionKey=p", "RowKey=r")
    token = run("storage", "table", "generate-sas", "--name", table, "--policy-name", "reader")
    query = lambda: stranger("storage", "entity", "query", *at, "--sas-token", token)  # noqa: E731
    equal([item["RowKey"] for item in query()["items"]], ["r"])
    # az puts words of its own in the place of ours.
    refused("Forbidden", lambda: stranger("storage", "entity", "insert", *at, "--entity", "PartitionKey=p", "RowKey=s", "--sas-token", token))
    run(*policy, "update", *at, "--name", "reader", "--permissions", "a")
    equal(run(*policy, "show", *at, "--name", "reader"), {**kept, "permission": "a"})
    refused("You do not have the required permissions", query)
    run(*policy, "delete", *at, "--name", "reader")
    equal(run(*policy, "list", *at), {})


@case
def settings_of_the_service_are_kept(run):
    of_tables = ("--services", "t")
    run("storage", "cors", "add", *of_tables, "--methods", "GET", "PUT", "--origins", "http://a", "--max-age", "5")
    rule, = run("storage", "cors", "list", *of_tables)
    equal((rule["AllowedMethods"], rule["AllowedOrigins"], rule["MaxAgeInSeconds"]), ("GET, PUT", "http://a", 5))
    run("storage", "cors", "clear", *of_tables)
    equal(run("storage", "cors", "list", *of_tables), [])
    run("storage", "logging", "update", *of_tables, "--log", "rw", "--retention", "5")
    logging = run("storage", "logging", "show", *of_tables)["table"]
    equal((logging["read"], logging["write"], logging["delete"]), (True, True, False))
    run("storage", "logging", "off", *of_tables)
    run("storage", "metrics", "update", *of_tables, "--hour", "true", "--api", "true", "--retention", "5")
    hour = run("storage", "metrics", "show", *of_tables)["table"]["hour"]
    equal((hour["enabled"], hour["includeApis"], hour["retentionPolicy"]["days"]), (True, True, 5))
    # The table is there from now on, but in no list.
    name = "$MetricsHourPrimaryTransactionsTable"
    run("storage", "entity", "query", "--table-name", name)
    assert name not in [item["name"] for item in run("storage", "table", "list")]
    run("storage", "metrics", "update", *of_tables, "--hour", "false", "--retention", "0")


if __name__ == "__main__":
    main(supplies)
