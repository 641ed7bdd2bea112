package plan_test

import (
	"testing"
)

// packs is a release with one archive and one image.
const packs = `apiVersion: waybill/v1
kind: Release
name: tool
source: {repository: "https://example.test/tool"}
steps:
- name: compile
  each: {platform: [linux/amd64]}
  run: [make]
  outputs: [{class: binary, name: "bin/{os}/{arch}/tool"}]
- name: pack
  archive: {format: zip, root: tool, take: [bin/linux/amd64/tool]}
  outputs: [{class: archive, name: tool.zip}]
- name: image
  image: {base: scratch, platforms: [linux/amd64], files: {/tool: "bin/{os}/{arch}/tool"}, entrypoint: [/tool], user: "65532:65532"}
  outputs: [{class: image, name: tool}]
places: {files: "https://dl.example.test/{version}/", images: registry.example.test}
`

// TestZipsAndUsers: an archive can be a zip, and an image can have a user. Each
// refused line differs in one fact from one that is planned.
func TestZipsAndUsers(t *testing.T) {
	p, err := expand(t, packs)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := p.Find("tool.zip")
	if a.MediaType != "application/zip" || !p.Steps[1].Archive.Zip || p.Steps[2].Image.User != "65532:65532" {
		t.Errorf("planned %+v, %+v, %+v", a, p.Steps[1].Archive, p.Steps[2].Image)
	}
	tarred, err := expand(t, change(t, change(t, packs, "format: zip", "format: tar.gz"), "tool.zip", "tool.tar.gz"))
	if err != nil || tarred.Steps[1].Archive.Zip || tarred.Digest() == p.Digest() {
		t.Errorf("as tar.gz: %v, %+v", err, tarred.Steps)
	}
	if _, err := expand(t, change(t, packs, `, user: "65532:65532"`, "")); err != nil {
		t.Errorf("without a user: %v", err)
	}
	for _, row := range []struct{ name, old, new, names string }{
		{"another format", "format: zip", "format: rar", "want tar.gz or zip"},
		{"a tar.gz called zip", "format: zip", "format: tar.gz", "must end in .zip"},
		{"a zip called tar.gz", "name: tool.zip", "name: tool.tar.gz", "must end in .zip"},
		{"the source in a zip", "take: [bin/linux/amd64/tool]", "take: source", "may have links"},
		{"the source in a zip by its output", "name: tool.zip", "name: tool.zip, take: source", "may have links"},
		{"a user by name", `user: "65532:65532"`, "user: nobody", "65532:65532"},
		{"a user without a group", `user: "65532:65532"`, `user: "65532"`, "65532:65532"},
		{"a user that is no number", `user: "65532:65532"`, `user: "-1:0"`, "65532:65532"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := expand(t, change(t, packs, row.old, row.new))
			refused(t, err, row.names)
		})
	}
}
