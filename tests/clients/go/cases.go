package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

var cases = []testCase[server]{
	{"tables_are_created_filtered_paged_and_deleted", tables},
	{"an_entity_is_inserted_read_and_deleted", insertReadDelete},
	{"entities_are_replaced_merged_and_upserted", replaceMergeUpsert},
	{"etags_are_honoured", etags},
	{"every_type_comes_back", everyType},
	{"queries_filter_select_and_page", queries},
	{"every_kind_of_operation_in_one_transaction", transaction},
	{"a_failed_transaction_changes_nothing", failedTransaction},
	{"keys_keep_every_character", keys},
	{"missing_tables_are_not_found", missingTables},
}

type fields = map[string]any

// body is an entity as JSON; the SDK takes it as it is.
func body(row string, properties fields) []byte {
	entity := fields{"PartitionKey": "p", "RowKey": row}
	for name, value := range properties {
		entity[name] = value
	}
	text, err := json.Marshal(entity)
	if err != nil {
		panic(err)
	}
	return text
}

// stored gives the properties of one entity, without what the service adds.
func stored(table *aztables.Client, partition, row string) (fields, azcore.ETag, error) {
	response, err := table.GetEntity(ctx, partition, row, nil)
	if err != nil {
		return nil, "", err
	}
	var entity fields
	if err := json.Unmarshal(response.Value, &entity); err != nil {
		return nil, "", err
	}
	for name := range entity {
		if strings.HasPrefix(name, "odata.") || name == "Timestamp" {
			delete(entity, name)
		}
	}
	return entity, response.ETag, nil
}

// rows gives the row keys of a query, page by page.
func rows(table *aztables.Client, options *aztables.ListEntitiesOptions) ([][]string, error) {
	pages := [][]string{}
	pager := table.NewListEntitiesPager(options)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, text := range page.Entities {
			var entity aztables.EDMEntity
			if err := json.Unmarshal(text, &entity); err != nil {
				return nil, err
			}
			names = append(names, entity.RowKey)
		}
		pages = append(pages, names)
	}
	return pages, nil
}

func tables(s server) error {
	stem := freshName("Go")
	for n := range 5 {
		if _, err := s.service.CreateTable(ctx, fmt.Sprintf("%s%d", stem, n), nil); err != nil {
			return err
		}
	}
	_, err := s.service.CreateTable(ctx, stem+"0", nil)
	if err := refused(err, 409, "TableAlreadyExists", "The table specified already exists."); err != nil {
		return err
	}
	listed := []string{}
	pager := s.service.NewListTablesPager(&aztables.ListTablesOptions{
		Filter: to.Ptr(fmt.Sprintf("TableName ge '%s' and TableName lt '%s{'", stem, stem)),
		Top:    to.Ptr(int32(2)),
	})
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, table := range page.Tables {
			listed = append(listed, strings.TrimPrefix(*table.Name, stem))
		}
	}
	if err := equal(listed, []string{"0", "1", "2", "3", "4"}); err != nil {
		return err
	}
	for n := range 5 {
		if _, err := s.service.DeleteTable(ctx, fmt.Sprintf("%s%d", stem, n), nil); err != nil {
			return err
		}
	}
	_, err = s.service.DeleteTable(ctx, stem+"0", nil)
	return refused(err, 404, "ResourceNotFound", "The specified resource does not exist.")
}

func insertReadDelete(s server) error {
	added, err := s.table.AddEntity(ctx, body("r", fields{"name": "x", "ok": true}), nil)
	if err != nil {
		return err
	}
	entity, etag, err := stored(s.table, "p", "r")
	if err != nil {
		return err
	}
	_, again := s.table.AddEntity(ctx, body("r", nil), nil)
	_, deleted := s.table.DeleteEntity(ctx, "p", "r", nil)
	_, _, missing := stored(s.table, "p", "r")
	return errors.Join(
		equal(entity, fields{"PartitionKey": "p", "RowKey": "r", "name": "x", "ok": true}),
		equal(etag, added.ETag),
		refused(again, 409, "EntityAlreadyExists", "The specified entity already exists."),
		deleted,
		refused(missing, 404, "ResourceNotFound", "The specified resource does not exist."),
	)
}

func replaceMergeUpsert(s server) error {
	update := func(properties fields, mode aztables.UpdateMode) error {
		options := &aztables.UpdateEntityOptions{UpdateMode: mode}
		_, err := s.table.UpdateEntity(ctx, body("r", properties), options)
		return err
	}
	upsert := func(properties fields, mode aztables.UpdateMode) error {
		options := &aztables.UpsertEntityOptions{UpdateMode: mode}
		_, err := s.table.UpsertEntity(ctx, body("r", properties), options)
		return err
	}
	holds := func(properties fields) error {
		entity, _, err := stored(s.table, "p", "r")
		delete(entity, "PartitionKey")
		delete(entity, "RowKey")
		return errors.Join(err, equal(entity, properties))
	}
	return errors.Join(
		refused(update(nil, aztables.UpdateModeMerge), 404, "ResourceNotFound", ""),
		upsert(fields{"a": "1", "b": "2"}, aztables.UpdateModeMerge),
		holds(fields{"a": "1", "b": "2"}),
		update(fields{"b": "3", "c": "4"}, aztables.UpdateModeMerge),
		holds(fields{"a": "1", "b": "3", "c": "4"}),
		update(fields{"b": "5"}, aztables.UpdateModeReplace),
		holds(fields{"b": "5"}),
		upsert(fields{"a": "6"}, aztables.UpdateModeMerge),
		holds(fields{"a": "6", "b": "5"}),
		upsert(fields{"z": "7"}, aztables.UpdateModeReplace),
		holds(fields{"z": "7"}),
	)
}

func etags(s server) error {
	added, err := s.table.AddEntity(ctx, body("r", nil), nil)
	if err != nil {
		return err
	}
	fresh, err := s.table.UpsertEntity(ctx, body("r", fields{"a": "1"}), nil)
	if err != nil {
		return err
	}
	stale := &aztables.UpdateEntityOptions{IfMatch: &added.ETag, UpdateMode: aztables.UpdateModeReplace}
	_, replaced := s.table.UpdateEntity(ctx, body("r", nil), stale)
	stale.UpdateMode = aztables.UpdateModeMerge
	_, merged := s.table.UpdateEntity(ctx, body("r", nil), stale)
	_, deleted := s.table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &added.ETag})
	_, accepted := s.table.DeleteEntity(ctx, "p", "r", &aztables.DeleteEntityOptions{IfMatch: &fresh.ETag})
	text := "The update condition specified in the request was not satisfied."
	return errors.Join(
		refused(replaced, 412, "UpdateConditionNotSatisfied", text),
		refused(merged, 412, "UpdateConditionNotSatisfied", text),
		refused(deleted, 412, "UpdateConditionNotSatisfied", text),
		accepted,
	)
}

func everyType(s server) error {
	properties := fields{
		"s":    "text 😀",
		"b":    false,
		"i":    int32(math.MinInt32),
		"d":    1.5,
		"l":    aztables.EDMInt64(math.MaxInt64),
		"low":  aztables.EDMInt64(math.MinInt64),
		"t":    aztables.EDMDateTime(time.Date(2020, 1, 2, 3, 4, 5, 678901200, time.UTC)),
		"g":    aztables.EDMGUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
		"x":    aztables.EDMBinary([]byte{0, 255}),
		"none": "",
	}
	entity := aztables.EDMEntity{Entity: aztables.Entity{PartitionKey: "p", RowKey: "r"}, Properties: properties}
	text, err := json.Marshal(entity)
	if err != nil {
		return err
	}
	if _, err := s.table.AddEntity(ctx, text, nil); err != nil {
		return err
	}
	full := aztables.MetadataFormatFull
	response, err := s.table.GetEntity(ctx, "p", "r", &aztables.GetEntityOptions{Format: &full})
	if err != nil {
		return err
	}
	var read aztables.EDMEntity
	if err := json.Unmarshal(response.Value, &read); err != nil {
		return err
	}
	if !strings.HasSuffix(read.ID, "(PartitionKey='p',RowKey='r')") {
		return fmt.Errorf("odata.id is %q", read.ID)
	}
	return equal(read.Properties, properties)
}

func queries(s server) error {
	actions := []aztables.TransactionAction{}
	for n := range 100 {
		entity := body(fmt.Sprintf("%03d", n), fields{"n": n})
		actions = append(actions, aztables.TransactionAction{ActionType: aztables.TransactionTypeAdd, Entity: entity})
	}
	if _, err := s.table.SubmitTransaction(ctx, actions, nil); err != nil {
		return err
	}
	found, err := rows(s.table, &aztables.ListEntitiesOptions{Filter: to.Ptr("n ge 10 and n lt 13")})
	if err != nil {
		return err
	}
	pages, err := rows(s.table, &aztables.ListEntitiesOptions{Top: to.Ptr(int32(30))})
	if err != nil {
		return err
	}
	sizes := []int{}
	for _, page := range pages {
		sizes = append(sizes, len(page))
	}
	_, wrong := rows(s.table, &aztables.ListEntitiesOptions{Filter: to.Ptr("aaa bbb ccc")})
	selected, err := rows(s.table, &aztables.ListEntitiesOptions{
		Filter: to.Ptr("RowKey eq '005'"), Select: to.Ptr("RowKey,nosuch"),
	})
	return errors.Join(
		equal(found, [][]string{{"010", "011", "012"}}),
		equal(sizes, []int{30, 30, 30, 10}),
		refused(wrong, 400, "InvalidInput", "Syntax error at position 7 in 'aaa bbb ccc'."),
		err,
		equal(selected, [][]string{{"005"}}),
	)
}

func transaction(s server) error {
	for _, row := range []string{"merge", "replace", "delete", "upmerge"} {
		if _, err := s.table.AddEntity(ctx, body(row, fields{"a": "1"}), nil); err != nil {
			return err
		}
	}
	b := fields{"b": "2"}
	any := azcore.ETagAny
	_, err := s.table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: body("create", b)},
		{ActionType: aztables.TransactionTypeUpdateMerge, Entity: body("merge", b), IfMatch: &any},
		{ActionType: aztables.TransactionTypeUpdateReplace, Entity: body("replace", b), IfMatch: &any},
		{ActionType: aztables.TransactionTypeDelete, Entity: body("delete", nil)},
		{ActionType: aztables.TransactionTypeInsertMerge, Entity: body("upmerge", b)},
		{ActionType: aztables.TransactionTypeInsertReplace, Entity: body("upreplace", b)},
	}, nil)
	if err != nil {
		return err
	}
	expected := map[string]fields{
		"create":    {"b": "2"},
		"merge":     {"a": "1", "b": "2"},
		"replace":   {"b": "2"},
		"upmerge":   {"a": "1", "b": "2"},
		"upreplace": {"b": "2"},
	}
	for row, properties := range expected {
		entity, _, err := stored(s.table, "p", row)
		if err != nil {
			return err
		}
		delete(entity, "PartitionKey")
		delete(entity, "RowKey")
		if err := equal(entity, properties); err != nil {
			return fmt.Errorf("%s: %w", row, err)
		}
	}
	all, err := rows(s.table, nil)
	return errors.Join(err, equal(len(all[0]), 5))
}

func failedTransaction(s server) error {
	if _, err := s.table.AddEntity(ctx, body("old", nil), nil); err != nil {
		return err
	}
	_, err := s.table.SubmitTransaction(ctx, []aztables.TransactionAction{
		{ActionType: aztables.TransactionTypeAdd, Entity: body("new", nil)},
		{ActionType: aztables.TransactionTypeAdd, Entity: body("old", nil)},
	}, nil)
	left, listed := rows(s.table, nil)
	// The SDK reports the outer status and no code; the part's own error stands in the text.
	return errors.Join(
		refused(err, 202, "", "1:The specified entity already exists."),
		refused(err, 202, "", "HTTP/1.1 409 Conflict"),
		listed,
		equal(left, [][]string{{"old"}}),
	)
}

func keys(s server) error {
	// The SDK refuses empty keys by itself.
	for _, key := range []string{"plain", " ", "with space", "o'clock", "100%", "%20", "a+b", "a:b@c=d&e$f~g", "ô", "日本語", "😀"} {
		text, err := json.Marshal(fields{"PartitionKey": key, "RowKey": key, "v": key})
		if err != nil {
			return err
		}
		if _, err := s.table.AddEntity(ctx, text, nil); err != nil {
			return fmt.Errorf("add %q: %w", key, err)
		}
		entity, _, err := stored(s.table, key, key)
		if err != nil {
			return fmt.Errorf("get %q: %w", key, err)
		}
		if err := equal(entity, fields{"PartitionKey": key, "RowKey": key, "v": key}); err != nil {
			return err
		}
		if _, err := s.table.DeleteEntity(ctx, key, key, nil); err != nil {
			return fmt.Errorf("delete %q: %w", key, err)
		}
	}
	return nil
}

func missingTables(s server) error {
	table := s.service.NewClient("Nosuchtable")
	_, added := table.AddEntity(ctx, body("r", nil), nil)
	_, listed := rows(table, nil)
	_, upserted := table.UpsertEntity(ctx, body("r", nil), nil)
	return errors.Join(
		refused(added, 404, "TableNotFound", "The table specified does not exist."),
		refused(listed, 404, "TableNotFound", ""),
		refused(upserted, 404, "TableNotFound", ""),
	)
}
