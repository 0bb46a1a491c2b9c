// The Go SDKs (aztables and azqueue) through every operation of their services. aztables signs with
// SharedKeyLite.
//
//	go run . [part of a case's name ...]
//
// The connection string is taken from LAZULI_CONNECTION_STRING.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
)

var ctx = context.Background()

// server is what a case works with: a service client, and a table made for this case.
type server struct {
	service *aztables.ServiceClient
	table   *aztables.Client
}

type testCase[S any] struct {
	name string
	run  func(S) error
}

func main() {
	options := &aztables.ClientOptions{}
	// One attempt: a retry would hide an answer that should not have been given.
	options.Retry = policy.RetryOptions{MaxRetries: -1}
	connection := os.Getenv("LAZULI_CONNECTION_STRING")
	service, err := aztables.NewServiceClientFromConnectionString(connection, options)
	if err != nil {
		fmt.Println("no usable LAZULI_CONNECTION_STRING:", err)
		os.Exit(2)
	}
	queues, err := connectQueues(connection)
	if err != nil {
		fmt.Println("no queues in LAZULI_CONNECTION_STRING:", err)
		os.Exit(2)
	}
	passed, failed := 0, 0
	attempt := func(name string, run func() error) {
		if !wanted(name, os.Args[1:]) {
			return
		}
		if err := run(); err != nil {
			failed++
			fmt.Println(err)
			fmt.Printf("test %s ... FAILED\n", name)
		} else {
			passed++
			fmt.Printf("test %s ... ok\n", name)
		}
	}
	for _, test := range cases {
		attempt(test.name, func() error { return withTable(service, test.run) })
	}
	for _, test := range queueCases {
		attempt("queues."+test.name, func() error { return queues.withQueue(test.run) })
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		os.Exit(1)
	}
}

func wanted(name string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return len(parts) == 0
}

func withTable(service *aztables.ServiceClient, run func(server) error) error {
	name := freshName("T")
	if _, err := service.CreateTable(ctx, name, nil); err != nil {
		return err
	}
	err := run(server{service, service.NewClient(name)})
	_, dropped := service.DeleteTable(ctx, name, nil)
	return errors.Join(err, dropped)
}

func freshName(prefix string) string {
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	return prefix + hex.EncodeToString(random)
}

func equal(got, expected any) error {
	if !reflect.DeepEqual(got, expected) {
		return fmt.Errorf("     got: %#v\nexpected: %#v", got, expected)
	}
	return nil
}

// refused says whether err is exactly this refusal; text must be part of what the error shows.
func refused(err error, status int, code, text string) error {
	var response *azcore.ResponseError
	if !errors.As(err, &response) {
		return fmt.Errorf("not refused, where %d %s was due: %v", status, code, err)
	}
	if response.StatusCode != status || response.ErrorCode != code {
		return fmt.Errorf("%d %s, where %d %s was due", response.StatusCode, response.ErrorCode, status, code)
	}
	if !strings.Contains(response.Error(), text) {
		return fmt.Errorf("no %q in %s", text, response.Error())
	}
	return nil
}
