package staging

import (
	"strings"
)

// GoReleaser is the dist of a project "lantern": archives with SBOMs and a
// signed file of checksums, the programs in a directory for each target, and
// what the tool writes for itself.
func GoReleaser(version string) Files {
	number, files := strings.TrimPrefix(version, "v"), Files{}
	var artifacts []object
	var summed []string
	add := func(kind, name, target string, body []byte) {
		files[name] = body
		artifacts = append(artifacts, object{"name": name[strings.LastIndexByte(name, '/')+1:], "path": "dist/" + name, "target": target, "type": kind})
	}
	for _, t := range []struct{ platform, target, ending string }{
		{"linux/amd64", "linux_amd64_v1", ".tar.gz"}, {"linux/arm64", "linux_arm64_v8.0", ".tar.gz"},
		{"darwin/arm64", "darwin_arm64_v8.0", ".tar.gz"}, {"windows/amd64", "windows_amd64_v1", ".zip"},
	} {
		program := "lantern_" + t.target + "/lantern"
		if strings.HasPrefix(t.platform, "windows/") {
			program += ".exe"
		}
		add("Binary", program, t.target, Program(t.platform, "lantern"))
		archive := "lantern_" + number + "_" + strings.ReplaceAll(t.platform, "/", "_") + t.ending
		add("Archive", archive, t.target, Archive(archive, Files{"README.md": []byte("# lantern\n"), program[strings.IndexByte(program, '/')+1:]: Program(t.platform, "lantern")}))
		add("SBOM", archive+".sbom.json", "", spdxOf(archive, files[archive]))
		summed = append(summed, archive, archive+".sbom.json")
	}
	sums := "lantern_" + number + "_checksums.txt"
	add("Checksum", sums, "", files.sums(summed, "", false))
	add("Signature", sums+".sig", "", []byte("MEUCIQDexamplesignature=="))
	add("Certificate", sums+".pem", "", []byte("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"))
	files["artifacts.json"] = encode(artifacts)
	files["metadata.json"] = encode(object{"project_name": "lantern", "tag": version, "version": number, "date": "2026-01-02T03:04:05Z"})
	files["config.yaml"] = []byte("version: 2\nproject_name: lantern\n")
	files["CHANGELOG.md"] = []byte("## Changelog\n")
	return files
}
