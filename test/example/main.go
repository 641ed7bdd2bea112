// Command lantern is the example that Waybill's demo and tests release: small,
// with one dependency, and built for several platforms.
package main

import (
	"os"

	"example.test/wick"
)

// version is set by the linker from the tag that is released.
var version = "unreleased"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		os.Stdout.WriteString("lantern " + version + "\n")
		return
	}
	os.Stdout.WriteString(wick.Light() + "\n")
}
