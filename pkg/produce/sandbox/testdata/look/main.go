// Command look prints what it sees of the places that it is told: the entries of
// a directory, the bytes of a file, or why neither can be had.
package main

import (
	"fmt"
	"os"
)

func main() {
	for _, place := range os.Args[1:] {
		if entries, err := os.ReadDir(place); err == nil {
			for _, e := range entries {
				fmt.Printf("%s has %s\n", place, e.Name())
			}
			continue
		}
		raw, err := os.ReadFile(place)
		fmt.Printf("%s says %q, %v\n", place, raw, err)
	}
}
