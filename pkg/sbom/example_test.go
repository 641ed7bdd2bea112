package sbom_test

import (
	"fmt"
	"testing/fstest"
	"time"

	"github.com/waybill-release/waybill/pkg/sbom"
)

// Any file, archive, image or directory is described by the bytes that are in it.
func ExampleDirectory() {
	made, err := sbom.Directory(sbom.Input{
		Name: "hello", Version: "v1.2.3", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Namespace: "https://example.test/sbom/",
	}, "hello-src", fstest.MapFS{
		"go.mod":  {Data: []byte("module example.test/hello\n\ngo 1.26\n\nrequire golang.org/x/text v0.21.0\n")},
		"main.go": {Data: []byte("package main\n")},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	summary := sbom.Summarise(made)
	fmt.Println(summary.Name, summary.Files)
	for _, p := range summary.Packages {
		fmt.Println(p.PURL)
	}
	// Output:
	// hello-src 2
	// pkg:golang/example.test/hello@v1.2.3
	// pkg:golang/golang.org/x/text@v0.21.0
}
