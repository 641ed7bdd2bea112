package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/test/bench"
)

// Rows, in the order in which they take turns.
const (
	files256 = iota
	bare256
	verify256
	signatures
	filesBoth
	bareBoth
	verifyBoth
	whole
	openssl // last, for it may be absent
)

// release verifies a whole release: against hashing it, and against verifying
// its files one by one.
func (s *setting) release(ctx context.Context) ([]bench.Section, error) {
	hashed, err := s.againstHash(ctx)
	if err != nil {
		return nil, err
	}
	sections := []bench.Section{hashed}
	if s.peers.cosign == "" {
		return sections, nil
	}
	for _, p := range []struct {
		dir  string
		goal float64
	}{{s.tree, 10}, {s.decided, 300}} {
		section, err := s.againstPeer(ctx, p.dir, p.goal)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// verifying is our verifier on the release made in dir.
func (s *setting) verifying(dir string, flags ...string) bench.Command {
	args := append([]string{s.verifier(), version, "--offline", "--profile", filepath.Join(dir, profileName)}, flags...)
	return bench.Command{Name: strings.Join(append([]string{"k8s-verify-release"}, flags...), " "), Args: args}
}

// files are the flags that ask for the files alone: one signature, then hashes.
func files() []string { return []string{"--depth", "files"} }

func (s *setting) againstHash(ctx context.Context) (bench.Section, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Section{}, err
	}
	product := s.verifying(s.tree)
	product.Name = "waybill verify release"
	product.Args = append([]string{filepath.Join(s.bin, "waybill"), "verify", "release"}, product.Args[1:]...)
	list := []bench.Command{
		files256:   s.verifying(s.tree, files()...),
		bare256:    {Name: "bare parallel SHA-256", Args: []string{self, "hash", s.released}},
		verify256:  s.verifying(s.tree),
		signatures: {Name: "signatures of the files alone", Args: []string{s.maker(), "--signatures", "--dir", s.tree}},
		filesBoth:  s.verifying(s.tree, append(files(), "--digests", "all")...),
		bareBoth:   {Name: "bare parallel SHA-256 and SHA-512", Args: []string{self, "hash", "--sha512", s.released}},
		verifyBoth: s.verifying(s.tree, "--digests", "all"),
		whole:      product,
	}
	if path, err := exec.LookPath("openssl"); err == nil {
		list = append(list, bench.Command{Name: "openssl dgst -sha256, one process", Args: append([]string{path, "dgst", "-sha256"}, s.files...)})
	}
	rows, err := s.turns(ctx, list)
	if err != nil {
		return bench.Section{}, err
	}
	s.aim(
		bench.Wall.Limited("P1", "verify a release, files alone", 1.05, rows[files256], rows[bare256]),
		bench.Wall.Limited("P1", "verify a release with all evidence", 1.05, rows[verify256], rows[bare256]),
		bench.Line{Goal: "P1", Work: "verify a release with all evidence, against the hash and the signatures of the files", Ours: bench.Wall.Says(rows[verify256]),
			Limit: bench.Wall.Says(rows[bare256]) + " + " + bench.Wall.Says(rows[signatures]), Value: rows[verify256].OverSum(rows[bare256], rows[signatures]).Wall, Unit: "x", Want: 1.05},
		bench.Counted("P1", "memory to verify a release with all evidence", "MiB", 32, bench.MiB(rows[verify256])),
		bench.Wall.Limited("P2", "verify a release by SHA-256 and SHA-512, files alone", 1.05, rows[filesBoth], rows[bareBoth]),
		bench.Wall.Limited("P2", "verify a release by SHA-256 and SHA-512, with all evidence", 1.05, rows[verifyBoth], rows[bareBoth]))
	name := fmt.Sprintf("a whole release: %d files, %.2f GB, %d of them signed one by one", s.facts.Files, float64(s.facts.Bytes)/1e9, s.facts.Artifacts)
	return bench.Section{Name: name, Bytes: s.facts.Bytes, Rows: rows, Ratios: ratios(rows), Notes: notes()}, nil
}

func ratios(rows []bench.Row) []bench.Ratio {
	list := []bench.Ratio{
		goal(rows[files256].Over(rows[bare256]), "1.05x"),
		goal(rows[verify256].Over(rows[bare256]), "1.05x"),
		goal(rows[filesBoth].Over(rows[bareBoth]), "1.05x"),
		goal(rows[verifyBoth].Over(rows[bareBoth]), "1.05x"),
		rows[verify256].OverSum(rows[bare256], rows[signatures]),
		rows[whole].Over(rows[verify256]),
	}
	if len(rows) > openssl {
		list = append(list, rows[openssl].Over(rows[verify256]), rows[openssl].Over(rows[verifyBoth]))
	}
	return list
}

func notes() []string {
	return []string{
		"the goal for the peak of the verifier is 32 MiB, whatever the files' sizes",
		"every built file has a signature and an SBOM of its own, and hashing alone pays for neither; --depth files verifies the signature of the manifest alone",
		"SHA-256 alone is what a verifier asks without flags; --digests all asks both, held against the standard library's",
		"coreutils' sha256sum is not measured: without the processor's SHA instructions it is a floor that anything beats",
	}
}

// abreastPeers is how many processes of the peer verify at a time.
const abreastPeers = 2

// peerRounds bounds how often a peer is measured that takes a process for each
// of a thousand files.
const peerRounds = 2

// againstPeer verifies the release made in dir, and its files one by one.
func (s *setting) againstPeer(ctx context.Context, dir string, least float64) (bench.Section, error) {
	t := setting{options: s.options, tree: dir, released: filepath.Join(dir, "release", version)}
	if err := t.look(); err != nil {
		return bench.Section{}, err
	}
	peer, err := t.onePerFile()
	if err != nil {
		return bench.Section{}, err
	}
	rows, err := bench.Alternate(ctx, []bench.Command{t.verifying(dir, files()...), t.verifying(dir), peer},
		min(s.work.rounds, peerRounds), func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	what, want := fmt.Sprintf("verify %d signed files, %.2g GB", t.facts.Artifacts, float64(t.facts.Bytes)/1e9), fmt.Sprintf(">= %gx", least)
	s.aim(bench.Wall.Beats("P3", what+", files alone", least, rows[0], rows[2]), bench.Wall.Beats("P3", what+", with all evidence", least, rows[1], rows[2]))
	return bench.Section{
		Name:   fmt.Sprintf("%d files with a signature each, %.4f GB with everything that is published about them", t.facts.Artifacts, float64(t.facts.Bytes)/1e9),
		Rows:   rows,
		Ratios: []bench.Ratio{goal(rows[2].Over(rows[0]), want), goal(rows[2].Over(rows[1]), want)},
		Notes: []string{
			fmt.Sprintf("the peer reads the %d files that are signed, all of them; ours reads all %d that are published, and says besides that none is missing and none too many", t.facts.Artifacts, t.facts.Files),
			"--depth files is the layout of a signed list: one signature, and every file by its digests; the row below it verifies every file's own signature, its SBOM and its provenance, too",
			fmt.Sprintf("medians of %d rounds", min(s.work.rounds, peerRounds)),
		},
	}, nil
}

// onePerFile verifies every signed file with a process of the peer's.
func (s *setting) onePerFile() (bench.Command, error) {
	var list strings.Builder
	for _, path := range s.files {
		if _, err := os.Stat(path + bundleSuffix); err == nil {
			fmt.Fprintln(&list, path)
		}
	}
	names := filepath.Join(s.tree, "signed.txt")
	if err := os.WriteFile(names, []byte(list.String()), 0o600); err != nil {
		return bench.Command{}, err
	}
	var who [2]string
	for i, name := range []string{"release.issuer", "release.subject"} {
		raw, err := os.ReadFile(filepath.Join(s.tree, name))
		if err != nil {
			return bench.Command{}, err
		}
		who[i] = string(raw)
	}
	xargs, err := exec.LookPath("xargs")
	if err != nil {
		return bench.Command{}, err
	}
	return bench.Command{
		Name: fmt.Sprintf("xargs -P%d cosign verify-blob", abreastPeers),
		Args: []string{
			xargs, "-a", names, "-P", fmt.Sprint(abreastPeers), "-I{}",
			s.peers.cosign, "verify-blob", "{}", "--bundle", "{}" + bundleSuffix, "--trusted-root", filepath.Join(s.tree, "trusted_root.json"),
			"--certificate-oidc-issuer", who[0], "--certificate-identity", who[1], "--use-signed-timestamps",
		},
	}, nil
}
