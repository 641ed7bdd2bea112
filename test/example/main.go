// Command lantern is the example that Waybill's demo and tests release: small,
// without dependencies, and built for several platforms.
package main

import "os"

// version is set by the linker from the tag that is released.
var version = "unreleased"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		os.Stdout.WriteString("lantern " + version + "\n")
		return
	}
	os.Stdout.WriteString("a light in the dark\n")
}
