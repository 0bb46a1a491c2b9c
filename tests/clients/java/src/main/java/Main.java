import com.azure.core.exception.HttpResponseException;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.RetryOptions;
import com.azure.core.util.Context;
import com.azure.data.tables.TableClient;
import com.azure.data.tables.TableServiceClient;
import com.azure.data.tables.TableServiceClientBuilder;
import com.azure.data.tables.models.ListEntitiesOptions;
import com.azure.data.tables.models.ListTablesOptions;
import com.azure.data.tables.models.TableEntity;
import com.azure.data.tables.models.TableEntityUpdateMode;
import com.azure.data.tables.models.TableItem;
import com.azure.data.tables.models.TableTransactionAction;
import com.azure.data.tables.models.TableTransactionActionType;
import com.azure.data.tables.models.TableTransactionFailedException;
import java.time.Duration;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * The Java SDKs of tables (here) and queues ({@link Queues}) through every operation of their services.
 *
 * <p>Arguments name parts of the cases to run; without any, all run. The connection string is taken
 * from LAZULI_CONNECTION_STRING.
 */
public final class Main {
    private static final TableEntityUpdateMode MERGE = TableEntityUpdateMode.MERGE;
    private static final TableEntityUpdateMode REPLACE = TableEntityUpdateMode.REPLACE;

    /** A case gets the service and a table made for it. */
    private interface Case {
        void run(TableServiceClient service, TableClient table) throws Exception;
    }

    /** A case with what it needs. */
    interface Attempt {
        void run() throws Exception;
    }

    private static Map<String, Case> cases() {
        Map<String, Case> cases = new LinkedHashMap<>();
        cases.put("tables_are_created_filtered_paged_and_deleted", Main::tables);
        cases.put("an_entity_is_inserted_read_and_deleted", Main::insertReadDelete);
        cases.put("entities_are_replaced_merged_and_upserted", Main::replaceMergeUpsert);
        cases.put("etags_are_honoured", Main::etags);
        cases.put("every_type_comes_back", Main::everyType);
        cases.put("queries_filter_select_and_page", Main::queries);
        cases.put("every_kind_of_operation_in_one_transaction", Main::transaction);
        cases.put("a_failed_transaction_changes_nothing", Main::failedTransaction);
        cases.put("keys_keep_every_character", Main::keys);
        cases.put("missing_tables_are_not_found", Main::missingTables);
        return cases;
    }

    public static void main(String[] parts) {
        String connection = System.getenv("LAZULI_CONNECTION_STRING");
        TableServiceClient service = new TableServiceClientBuilder()
            .connectionString(connection)
            // One attempt: a retry would hide an answer that should not have been given.
            .retryOptions(new RetryOptions(new FixedDelayOptions(0, Duration.ofMillis(1))))
            .buildClient();
        Map<String, Attempt> tests = new LinkedHashMap<>();
        cases().forEach((name, test) -> tests.put(name, () -> runOne(service, test)));
        Queues.cases(connection).forEach((name, test) -> tests.put("queues." + name, test));
        int passed = 0;
        int failed = 0;
        for (Map.Entry<String, Attempt> test : tests.entrySet()) {
            String name = test.getKey();
            if (parts.length > 0 && Arrays.stream(parts).noneMatch(name::contains)) {
                continue;
            }
            try {
                test.getValue().run();
                passed += 1;
                System.out.println("test " + name + " ... ok");
            } catch (Exception | AssertionError error) {
                failed += 1;
                error.printStackTrace(System.out);
                System.out.println("test " + name + " ... FAILED");
            }
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed > 0 || passed == 0 ? 1 : 0);
    }

    private static void runOne(TableServiceClient service, Case test) throws Exception {
        String name = freshName("T");
        TableClient table = service.createTable(name);
        try {
            test.run(service, table);
        } finally {
            table.deleteTable();
        }
    }

    private static void tables(TableServiceClient service, TableClient table) {
        String stem = freshName("Java");
        List<String> names = IntStream.range(0, 5).mapToObj(n -> stem + n).toList();
        names.forEach(service::createTable);
        refused(409, "TableAlreadyExists", () -> service.createTable(names.get(0)));
        String prefix = String.format("TableName ge '%s' and TableName lt '%s{'", stem, stem);
        ListTablesOptions options = new ListTablesOptions().setFilter(prefix).setTop(2);
        List<List<String>> pages = new ArrayList<>();
        service.listTables(options, null, Context.NONE).iterableByPage()
            .forEach(page -> pages.add(page.getValue().stream().map(TableItem::getName).toList()));
        equal(pages, List.of(names.subList(0, 2), names.subList(2, 4), names.subList(4, 5)));
        names.forEach(service::deleteTable);
        equal(service.listTables(new ListTablesOptions().setFilter(prefix), null, Context.NONE).stream().count(), 0L);
    }

    private static void insertReadDelete(TableServiceClient service, TableClient table) {
        table.createEntity(row("r").addProperty("name", "x").addProperty("n", 5));
        TableEntity read = table.getEntity("p", "r");
        equal(custom(read), Map.of("name", "x", "n", 5));
        String second = read.getTimestamp().toString().substring(0, 16).replace(":", "%3A");
        equal(read.getETag().startsWith("W/\"datetime'" + second), true);
        refused(409, "EntityAlreadyExists", () -> table.createEntity(row("r")));
        table.deleteEntity("p", "r");
        refused(404, "ResourceNotFound", () -> table.getEntity("p", "r"));
    }

    private static void replaceMergeUpsert(TableServiceClient service, TableClient table) {
        refused(404, "ResourceNotFound", () -> table.updateEntity(row("r"), MERGE));
        table.upsertEntity(row("r").addProperty("a", "1").addProperty("b", "2"));
        equal(custom(table.getEntity("p", "r")), Map.of("a", "1", "b", "2"));
        table.updateEntity(row("r").addProperty("b", "3"), MERGE);
        equal(custom(table.getEntity("p", "r")), Map.of("a", "1", "b", "3"));
        table.updateEntity(row("r").addProperty("b", "4"), REPLACE);
        equal(custom(table.getEntity("p", "r")), Map.of("b", "4"));
        table.upsertEntityWithResponse(row("r").addProperty("z", "5"), REPLACE, null, null);
        equal(custom(table.getEntity("p", "r")), Map.of("z", "5"));
    }

    private static void etags(TableServiceClient service, TableClient table) {
        table.createEntity(row("r"));
        TableEntity stale = table.getEntity("p", "r");
        table.upsertEntity(row("r").addProperty("a", "1"));
        String code = "UpdateConditionNotSatisfied";
        refused(412, code, () -> table.updateEntityWithResponse(stale, MERGE, true, null, null));
        refused(412, code, () -> table.updateEntityWithResponse(stale, REPLACE, true, null, null));
        refused(412, code, () -> table.deleteEntityWithResponse(stale, true, null, null));
        TableEntity fresh = table.getEntity("p", "r");
        table.updateEntityWithResponse(fresh, REPLACE, true, null, null);
        table.deleteEntityWithResponse(table.getEntity("p", "r"), true, null, null);
        equal(table.listEntities().stream().count(), 0L);
    }

    private static void everyType(TableServiceClient service, TableClient table) {
        // NaN and the infinities are left out: this SDK sends them as strings.
        Map<String, Object> values = new TreeMap<>();
        values.put("s", "text 😀");
        values.put("empty", "");
        values.put("b", false);
        values.put("i", Integer.MIN_VALUE);
        values.put("l", Long.MAX_VALUE);
        values.put("low", Long.MIN_VALUE);
        values.put("d", 1.5);
        values.put("whole", 3.0);
        values.put("t", OffsetDateTime.of(2020, 1, 2, 3, 4, 5, 678_901_200, ZoneOffset.UTC));
        values.put("g", UUID.fromString("c9da6455-213d-42c9-9a79-3e9149a57833"));
        TableEntity entity = row("r").addProperty("x", new byte[] {0, -1});
        values.forEach(entity::addProperty);
        table.createEntity(entity);
        TableEntity read = table.getEntity("p", "r");
        equal(Arrays.equals((byte[]) read.getProperty("x"), new byte[] {0, -1}), true);
        Map<String, Object> rest = new TreeMap<>(custom(read));
        rest.remove("x");
        equal(rest, values);
    }

    private static void queries(TableServiceClient service, TableClient table) {
        table.submitTransaction(IntStream.range(0, 100)
            .mapToObj(n -> row(String.format("%03d", n)).addProperty("n", n))
            .map(entity -> new TableTransactionAction(TableTransactionActionType.CREATE, entity))
            .toList());
        equal(rows(table, new ListEntitiesOptions().setFilter("n ge 10 and n lt 13")), List.of("010", "011", "012"));
        List<Integer> sizes = new ArrayList<>();
        table.listEntities(new ListEntitiesOptions().setTop(30), null, null).iterableByPage()
            .forEach(page -> sizes.add(page.getValue().size()));
        equal(sizes, List.of(30, 30, 30, 10));
        ListEntitiesOptions one = new ListEntitiesOptions().setFilter("RowKey eq '005'").setSelect(List.of("n"));
        equal(table.listEntities(one, null, null).stream().map(e -> e.getProperty("n")).toList(), List.of(5));
        refused(400, "InvalidInput", () -> rows(table, new ListEntitiesOptions().setFilter("aaa bbb ccc")));
    }

    private static void transaction(TableServiceClient service, TableClient table) {
        for (String key : List.of("merge", "replace", "delete", "upmerge")) {
            table.createEntity(row(key).addProperty("a", "1"));
        }
        List<TableTransactionAction> actions = List.of(
            new TableTransactionAction(TableTransactionActionType.CREATE, changed("create")),
            new TableTransactionAction(TableTransactionActionType.UPDATE_MERGE, changed("merge")),
            new TableTransactionAction(TableTransactionActionType.UPDATE_REPLACE, changed("replace")),
            new TableTransactionAction(TableTransactionActionType.DELETE, row("delete")),
            new TableTransactionAction(TableTransactionActionType.UPSERT_MERGE, changed("upmerge")),
            new TableTransactionAction(TableTransactionActionType.UPSERT_REPLACE, changed("upreplace")));
        List<Integer> statuses = table.submitTransaction(actions).getTransactionActionResponses().stream()
            .map(response -> response.getStatusCode()).toList();
        equal(statuses, List.of(204, 204, 204, 204, 204, 204));
        Map<String, Map<String, Object>> stored = new TreeMap<>();
        table.listEntities().forEach(entity -> stored.put(entity.getRowKey(), custom(entity)));
        equal(stored, new TreeMap<>(Map.of(
            "create", Map.of("b", "2"),
            "merge", Map.of("a", "1", "b", "2"),
            "replace", Map.of("b", "2"),
            "upmerge", Map.of("a", "1", "b", "2"),
            "upreplace", Map.of("b", "2"))));
    }

    private static void failedTransaction(TableServiceClient service, TableClient table) {
        table.createEntity(row("old"));
        List<TableTransactionAction> actions = List.of(
            new TableTransactionAction(TableTransactionActionType.CREATE, row("new")),
            new TableTransactionAction(TableTransactionActionType.CREATE, row("old")));
        try {
            table.submitTransaction(actions);
            throw new AssertionError("accepted");
        } catch (TableTransactionFailedException error) {
            equal(error.getFailedTransactionActionIndex(), 1);
            equal(error.getValue().getErrorCode().toString(), "EntityAlreadyExists");
        }
        equal(rows(table, new ListEntitiesOptions()), List.of("old"));
    }

    private static void keys(TableServiceClient service, TableClient table) {
        for (String key : List.of(
                "plain", " ", "with space", "o'clock", "100%", "%20", "a+b", "a:b@c=d&e$f~g", "ô", "日本語", "😀")) {
            table.createEntity(new TableEntity(key, key).addProperty("v", key));
            TableEntity read = table.getEntity(key, key);
            equal(List.of(read.getPartitionKey(), read.getRowKey(), read.getProperty("v")), List.of(key, key, key));
            table.upsertEntity(new TableEntity(key, key).addProperty("w", key));
            table.deleteEntity(key, key);
        }
        equal(table.listEntities().stream().count(), 0L);
    }

    private static void missingTables(TableServiceClient service, TableClient table) {
        TableClient missing = service.getTableClient("Nosuchtable");
        refused(404, "TableNotFound", () -> missing.createEntity(row("r")));
        refused(404, "TableNotFound", () -> missing.upsertEntity(row("r")));
        refused(404, "TableNotFound", () -> rows(missing, new ListEntitiesOptions()));
    }

    private static TableEntity row(String key) {
        return new TableEntity("p", key);
    }

    private static TableEntity changed(String key) {
        return row(key).addProperty("b", "2");
    }

    /** The properties of an entity without what the service or the SDK adds. */
    private static Map<String, Object> custom(TableEntity entity) {
        return entity.getProperties().entrySet().stream()
            .filter(property -> !property.getKey().contains("odata."))
            .filter(property -> !List.of("PartitionKey", "RowKey", "Timestamp").contains(property.getKey()))
            .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
    }

    private static List<String> rows(TableClient table, ListEntitiesOptions options) {
        return table.listEntities(options, null, null).stream().map(TableEntity::getRowKey).toList();
    }

    static String freshName(String prefix) {
        return prefix + UUID.randomUUID().toString().replace("-", "");
    }

    static void equal(Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError("\n     got: " + got + "\nexpected: " + expected);
        }
    }

    private static void refused(int status, String code, Runnable attempt) {
        try {
            attempt.run();
        } catch (HttpResponseException error) {
            // Not every method of the SDK turns the answer into an exception of its own.
            equal(error.getResponse().getStatusCode(), status);
            equal(error.getMessage().contains("\"code\":\"" + code + "\""), true);
            return;
        }
        throw new AssertionError("accepted, where " + status + " " + code + " was due");
    }
}
