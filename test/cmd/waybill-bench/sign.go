package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// signed is how much there is to sign.
type signed struct {
	files, images int
	sample        int // of them that a peer signs, one process for each; ratios are those of one thing
	rounds        int
}

// oneBatch is how often a public log is through with what it was offered.
const oneBatch = time.Second

// abreast is how many processes of a peer are under way where they are several.
const abreast = 8

// signs compares ways to sign many things, with a log that answers at once and
// with one that is through with a batch once a second.
func (s *setting) signs(ctx context.Context) ([]bench.Section, error) {
	if err := os.MkdirAll(s.scenes(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.scenes()) }()
	var sections []bench.Section
	for _, batch := range []time.Duration{0, oneBatch} {
		for _, part := range []func(context.Context, time.Duration) (bench.Section, error){s.signFiles, s.signImages} {
			section, err := part(ctx, batch)
			if err != nil {
				return nil, err
			}
			sections = append(sections, section)
		}
	}
	section, err := s.large(ctx)
	return append(sections, section), err
}

// layouts signs many things together, and in a storm.
func (s *setting) layouts(ctx context.Context) ([]bench.Section, error) {
	if err := os.MkdirAll(s.scenes(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.scenes()) }()
	var sections []bench.Section
	for _, part := range []func(context.Context) (bench.Section, error){
		func(ctx context.Context) (bench.Section, error) { return s.signTogether(ctx, 0) },
		func(ctx context.Context) (bench.Section, error) { return s.signTogether(ctx, oneBatch) },
		s.storm,
	} {
		section, err := part(ctx)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
	return sections, nil
}

// subjects is how many the largest statement has.
const subjects = 100_000

// large works on one very large statement.
func (s *setting) large(ctx context.Context) (bench.Section, error) {
	dir := filepath.Join(s.scenes(), "large")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return bench.Section{}, err
	}
	command := func(name, work string) bench.Command {
		return bench.Command{Name: name, Args: []string{s.signer(), "-dir", dir, "-n", strconv.Itoa(subjects), "-subjects", work}, Inner: true}
	}
	mint := command("", "mint")
	if said, err := exec.CommandContext(ctx, mint.Args[0], mint.Args[1:]...).CombinedOutput(); err != nil {
		return bench.Section{}, fmt.Errorf("signing a large statement: %w\n%s", err, said)
	}
	rows, err := bench.Alternate(ctx, []bench.Command{
		command("write and sign it", "state"), command("hash and sign it, bare", "bare"),
		command("read and verify it, and one subject", "one"), command("read and verify it, and every subject", "all"), command("read and hash its bundle, bare", "hash"),
	}, s.work.signed.rounds, func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	s.aim(bench.CPU.Limited("P13", fmt.Sprintf("write and sign provenance of %d subjects, whose digests are known", subjects), 3, rows[0], rows[1]))
	return bench.Section{
		Name: fmt.Sprintf("one statement of %d subjects, whose digests are known", subjects), Rows: rows,
		Ratios: []bench.Ratio{goal(rows[0].Over(rows[1]), "3x"), rows[2].Over(rows[4]), rows[3].Over(rows[4])},
		Notes:  []string{"the goal of verifying is 150 ms more than the hash, and 128 MB; sigstore-go and cosign refuse more than 1024 subjects"},
	}, nil
}

// stormRate is how many entries a second the log of the storm takes.
const stormRate = 25

// storm signs with a log that tells most to come again. A peer gives up then,
// so there is nobody to compare with.
func (s *setting) storm(ctx context.Context) (bench.Section, error) {
	n := s.work.signed.files
	section, err := s.compareSigning(ctx, []bench.Command{s.signing("waybill", "waybill", signWork{"files", n, 0}, "-rate", strconv.Itoa(stormRate))}, "")
	if err != nil {
		return bench.Section{}, err
	}
	section.Name = fmt.Sprintf("a storm: %d files, a log that takes %d entries a second and answers 429, Retry-After: 1, to the rest", n, stormRate)
	section.Unit = "file"
	m := section.Rows[0].Median
	section.Notes = []string{
		fmt.Sprintf("no signer can be done before %d s; %d entries for %d files, all signed in the first run", n/stormRate-1, m.Entries, n),
		fmt.Sprintf("%d requests to the log, %d of them refused, at most %d in one second", m.Entries+m.Refused, m.Refused, m.Busiest),
		"cosign ends with the first refusal, so it is not compared",
	}
	return section, nil
}

func (s *setting) scenes() string { return filepath.Join(s.dir, "sign") }

func (s *setting) signer() string { return filepath.Join(s.dir, "bin", "waybill-bench-sign") }

// signWork is what is signed, how many of it, and how often the log is
// through with a batch.
type signWork struct {
	what  string
	n     int
	batch time.Duration
}

// signing is one way to do it.
func (s *setting) signing(name, way string, w signWork, flags ...string) bench.Command {
	args := []string{s.signer(), "-dir", s.scenes(), "-what", w.what, "-way", way, "-n", strconv.Itoa(w.n), "-batch", w.batch.String()}
	return bench.Command{Name: name, Args: append(args, flags...), Units: w.n, Inner: true}
}

// peerSigning are the ways of cosign that are at hand: one process after
// another, and of the newest several at a time.
func (s *setting) peerSigning(verb, what string, batch time.Duration) (list []bench.Command) {
	n := min(s.work.signed.sample, s.work.signed.files)
	if what == "images" {
		n = min((n+1)/2, s.work.signed.images) // each has three manifests to sign
	}
	work := signWork{what, n, batch}
	if s.peers.cosign != "" {
		list = append(list,
			s.signing("cosign v3 "+verb+", one process each", "cosign3", work, "-peer", s.peers.cosign),
			s.signing(fmt.Sprintf("cosign v3 %s, %d processes at a time", verb, abreast), "cosign3", work, "-peer", s.peers.cosign, "-abreast", strconv.Itoa(abreast)))
	}
	if s.peers.cosign2 != "" {
		list = append(list, s.signing("cosign v2 "+verb+", one process each", "cosign2", work, "-peer", s.peers.cosign2))
	}
	return list
}

func (s *setting) signFiles(ctx context.Context, batch time.Duration) (bench.Section, error) {
	n := s.work.signed.files
	commands := append([]bench.Command{s.signing("waybill", "waybill", signWork{"files", n, batch})}, s.peerSigning("sign-blob", "files", batch)...)
	section, err := s.compareSigning(ctx, commands, ">= 10x")
	s.aimSigning("P15", fmt.Sprintf("sign %d files, a log that %s", n, answers(batch)), 10, section.Rows)
	section.Name = fmt.Sprintf("same output: %d files, each with a bundle and an entry of a log that %s", n, answers(batch))
	section.Unit = "file"
	return section, err
}

// signTogether is the layout that a release has: one attestation of all. Its
// peers sign each file, or, where that is possible, the very same statement.
func (s *setting) signTogether(ctx context.Context, batch time.Duration) (bench.Section, error) {
	n := s.work.signed.files
	commands := append([]bench.Command{s.signing("waybill, one attestation", "waybill", signWork{"statement", n, batch})}, s.peerSigning("sign-blob", "files", batch)...)
	if s.peers.cosign != "" {
		one := s.signing("cosign v3 attest-blob of a statement that was made before", "cosign3", signWork{"statement", n, batch}, "-peer", s.peers.cosign)
		commands = append(commands, one)
	}
	section, err := s.compareSigning(ctx, commands, "")
	section.Name = fmt.Sprintf("best layout: one attestation of %d files, in a log that %s", n, answers(batch))
	section.Unit = "file"
	return section, err
}

func (s *setting) signImages(ctx context.Context, batch time.Duration) (bench.Section, error) {
	n := s.work.signed.images
	commands := append([]bench.Command{s.signing("waybill", "waybill", signWork{"images", n, batch})}, s.peerSigning("sign --recursive", "images", batch)...)
	section, err := s.compareSigning(ctx, commands, ">= 5x")
	s.aimSigning("P16", fmt.Sprintf("sign %d images of 2 platforms, a log that %s", n, answers(batch)), 5, section.Rows)
	section.Name = fmt.Sprintf("%d images of two platforms: index and both signed and attached, in a log that %s", n, answers(batch))
	section.Unit = "image"
	section.Notes = append(section.Notes, "cosign v2 signs images in the legacy form, in the older log, which answers at once in both cases but for the batches")
	return section, err
}

// aimSigning compares with each peer.
func (s *setting) aimSigning(goal, work string, least float64, rows []bench.Row) {
	for i := 1; i < len(rows); i++ {
		s.aim(bench.Wall.Beats(goal, work+", against "+rows[i].Name, least, rows[0], rows[i]))
	}
}

func answers(batch time.Duration) string {
	if batch == 0 {
		return "answers at once"
	}
	return "takes a batch every " + batch.String()
}

// compareSigning lets the ways take turns, and says what each asked for.
func (s *setting) compareSigning(ctx context.Context, commands []bench.Command, want string) (bench.Section, error) {
	rows, err := bench.Alternate(ctx, commands, s.work.signed.rounds, func(what string) { progress("%s", what) })
	if err != nil {
		return bench.Section{}, err
	}
	section := bench.Section{Rows: rows}
	for i, row := range rows {
		each := func(n int) float64 { return float64(n) / float64(row.Units) }
		section.Notes = append(section.Notes, fmt.Sprintf("%s: %d of them, %.2f requests and %.3f log entries each",
			row.Name, row.Units, each(row.Median.Requests), each(row.Median.Entries)))
		if i > 0 {
			section.Ratios = append(section.Ratios, goal(row.Over(rows[0]), want))
		}
	}
	section.Notes = append(section.Notes, fmt.Sprintf("medians of %d rounds; ratios are of one thing; the signer's processes are measured, not the lab", s.work.signed.rounds))
	if len(rows) == 1 {
		section.Notes = append(section.Notes, "no cosign was given to compare with")
	}
	return section, nil
}
