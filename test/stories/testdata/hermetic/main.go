// Command lantern gives light.
package main

import (
	"fmt"

	"example.test/wick"
)

func main() { fmt.Println(wick.Light()) }
