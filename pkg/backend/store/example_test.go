package store_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// A directory, a tar archive, a bucket and a web server are read the same way.
// What is read is the claim of the place until its bytes were verified.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := store.OpenWriter(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Put(ctx, "bin/hello", 5, strings.NewReader("hello"), store.PutOptions{IfAbsent: true}))
	place, err := store.Open(dir, nil) // a directory needs no transport
	if err != nil {
		fmt.Println(err)
		return
	}
	objects, err := place.List(ctx)
	fmt.Println(objects, err)
	body, err := store.Read(ctx, place, "bin/hello", 1<<20)
	fmt.Println(string(body), err)
	// Output:
	// <nil>
	// [{bin/hello 5 }] <nil>
	// hello <nil>
}
