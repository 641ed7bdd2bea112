package plan_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// A plan names every artifact that a release will have, before anything is built.
func ExampleConfig_Expand() {
	c, err := plan.ParseConfig([]byte(`apiVersion: waybill/v1
kind: Release
name: hello
version: {tag: "{version}"}
source: {repository: "https://example.test/hello"}
steps:
- name: compile
  each: {platform: [linux/amd64, linux/arm64]}
  run: [./build, "{platform}"]
  outputs:
  - {class: binary, name: "bin/{os}/{arch}/hello"}
places:
  files: {uri: "https://dl.example.test/hello/{version}/", owns: prefix}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := version.Parse("v1.2.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := c.Expand(v)
	for _, a := range p.Artifacts {
		if a.IsBuilt() {
			fmt.Println(a.Class, a.Name, len(a.Evidence))
		}
	}
	fmt.Println("with evidence, sums and release.yaml:", len(p.Artifacts), err)
	// Output:
	// binary bin/linux/amd64/hello 3
	// binary bin/linux/arm64/hello 3
	// with evidence, sums and release.yaml: 15 <nil>
}
