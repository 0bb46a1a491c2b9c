"""Create, find, list and delete queues, and their metadata."""

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import AccessPolicy
from queue_harness import case, count, equal, fresh_queue_name, refused

NO_QUEUE = "The specified queue does not exist."


@case
def a_queue_is_created_once_and_deleted(account, queues):
    name = fresh_queue_name()
    queue = queues.create_queue(name, metadata={"owner": "me"})
    try:
        # 204 without a body, which this SDK reports as an error of its own.
        queues.create_queue(name, metadata={"owner": "me"})
    except ResourceExistsError as error:
        equal((error.status_code, error.error_code), (204, "QueueAlreadyExists"))
    else:
        raise AssertionError("the second create was not told apart")
    for metadata in [{"owner": "you"}, {"owner": "me", "more": "1"}, None]:
        with refused(409, "QueueAlreadyExists", "The specified queue already exists."):
            queues.create_queue(name, metadata=metadata)
    equal(queue.get_queue_properties().metadata, {"owner": "me"})
    queue.set_queue_access_policy({"p": AccessPolicy(permission="r", expiry="2099-01-01T00:00:00Z")})
    queue.send_message("left behind")
    queues.delete_queue(name)
    # a queue of the same name starts empty.
    again = queues.create_queue(name)
    found = again.get_queue_properties()
    equal((found.approximate_message_count, found.metadata), (0, {}))
    equal(again.get_queue_access_policy(), {})
    again.delete_queue()


@case
def nothing_is_found_in_a_missing_queue(account):
    queue = account.queue(fresh_queue_name())
    for attempt in [
        queue.delete_queue,
        queue.get_queue_properties,
        lambda: queue.set_queue_metadata({"a": "1"}),
        queue.get_queue_access_policy,
        lambda: queue.set_queue_access_policy({}),
        lambda: queue.send_message("x"),
        queue.receive_message,
        queue.peek_messages,
        queue.clear_messages,
        lambda: queue.update_message("id", "AgAAAAMAAAAAAAAATo9G3YHt2AE=", visibility_timeout=0),
        lambda: queue.delete_message("id", "AgAAAAMAAAAAAAAATo9G3YHt2AE="),
    ]:
        with refused(404, "QueueNotFound", NO_QUEUE):
            attempt()
    try:
        queue.get_queue_properties()
    except ResourceNotFoundError:
        return
    raise AssertionError("not the SDK's own exception")


@case
def queues_are_listed_by_prefix_page_by_page(account, queues):
    stem = fresh_queue_name("list")
    names = [f"{stem}-{letter}" for letter in "abcde"]
    for name in reversed(names):
        queues.create_queue(name, metadata={"lastLetter": name[-1], "_n": "<&>"} if name < names[-1] else None)
    equal([item.name for item in queues.list_queues(name_starts_with=stem)], names)
    equal(list(queues.list_queues(name_starts_with=stem + "x")), [])

    pages = queues.list_queues(name_starts_with=stem, results_per_page=2).by_page()
    equal([item.name for item in next(pages)], names[:2])
    equal(pages.continuation_token, f"/{account.name}/{names[2]}")
    rest = account.service().list_queues(name_starts_with=stem, results_per_page=2)
    rest = rest.by_page(continuation_token=pages.continuation_token)
    equal([[item.name for item in page] for page in rest], [names[2:4], names[4:]])

    found = list(queues.list_queues(name_starts_with=stem, include_metadata=True))
    equal([item.metadata or {} for item in found], [{"lastLetter": x, "_n": "<&>"} for x in "abcd"] + [{}])
    for name in names:
        queues.delete_queue(name)


@case
def metadata_is_replaced_as_a_whole(queue):
    equal(queue.get_queue_properties().metadata, {})
    # Names keep the case of their creation.
    queue.set_queue_metadata({"favouriteColor": "deep blue", "N1": "5"})
    equal(queue.get_queue_properties().metadata, {"favouriteColor": "deep blue", "N1": "5"})
    queue.set_queue_metadata({"shape": "round"})
    equal(queue.get_queue_properties().metadata, {"shape": "round"})
    text = "The metadata specified is invalid. It has characters that are not permitted."
    for name in ["invalid-meta", "12345"]:
        with refused(400, "InvalidMetadata", text):
            queue.set_queue_metadata({name: "x"})
    equal(queue.get_queue_properties().metadata, {"shape": "round"})
    queue.set_queue_metadata()
    equal(queue.get_queue_properties().metadata, {})


@case
def invalid_names_are_refused(queues):
    characters = "The specifed resource name contains invalid characters."
    length = "The specified resource name length is not within the permissible limits."
    for name, code, text in [
        ("UPPER", "InvalidResourceName", characters),
        ("under_score", "InvalidResourceName", characters),
        ("-start", "InvalidResourceName", characters),
        ("end-", "InvalidResourceName", characters),
        ("two--dashes", "InvalidResourceName", characters),
        ("啊齄丂狛狜", "InvalidResourceName", characters),
        ("ab", "OutOfRangeInput", length),
        ("a" * 64, "OutOfRangeInput", length),
    ]:
        with refused(400, code, text):
            queues.create_queue(name)
    longest = "a" * 63
    equal(count(queues.create_queue(longest)), 0)
    queues.delete_queue(longest)
