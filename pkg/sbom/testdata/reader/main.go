// Reader is a program with a dependency from outside its module.
package main

import "github.com/spdx/tools-golang/spdx/v2/v2_3"

func main() { println(v2_3.Version) }
