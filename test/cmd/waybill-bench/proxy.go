package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// proxied is what is pulled through waybill gate proxy.
type proxied struct {
	layer  int // bytes
	rounds int
}

// proxies measures pulls through waybill gate proxy beside the registry alone.
func (s *setting) proxies(ctx context.Context) ([]bench.Section, error) {
	if s.peers.registry == "" {
		progress("without a registry (-registry) the proxy is not measured")
		return nil, nil
	}
	seed := filepath.Join(s.dir, "proxied")
	if err := s.mintGated(ctx, seed, 1); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.gateScenes(), 0o755); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.gateScenes()) }()
	w := s.work.proxied
	progress("a layer of %d MiB and a manifest are pulled, %d rounds", w.layer>>20, w.rounds)
	cmd := exec.CommandContext(ctx, s.gater(), "-registry", s.peers.registry, "-bin", s.bin, "-dir", s.gateScenes(), "-seed", seed, "-bytes", strconv.Itoa(w.layer), "-n", strconv.Itoa(w.rounds))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("pulling through the proxy: %w\n%.2000s", err, said.Bytes())
	}
	rows := map[string][]bench.Row{}
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		return nil, err
	}
	const alone, proxy = 0, 1
	mib := w.layer >> 20
	var sections []bench.Section
	for _, p := range []struct {
		name, work string
		bytes      int
	}{
		{"layer", fmt.Sprintf("pull a layer of %d MiB through the proxy, and check its digest", mib), w.layer},
		{"range", fmt.Sprintf("pull %d MiB of it by a range, and hash them", mib/2), w.layer / 2},
		{"ignored", "pull it, and ignore what comes", w.layer},
	} {
		all := rows[p.name]
		line := bench.CPU.Limited("P17", p.work, 1.15, all[proxy], all[alone])
		line.Ours, line.Limit = line.Ours+", "+bench.Wall.Says(all[proxy]), line.Limit+", "+bench.Wall.Says(all[alone])
		section := bench.Section{Name: p.work, Bytes: int64(p.bytes), Rows: all}
		for _, row := range all[proxy:] {
			ratio := row.Over(all[alone])
			section.Ratios = append(section.Ratios, ratio)
			if row.Name != all[proxy].Name {
				line.Peer += fmt.Sprintf("; %s: %.2f×", row.Name, ratio.CPU)
			}
		}
		line.Peer = line.Peer[min(2, len(line.Peer)):]
		section.Notes = []string{"the goal is at most 1.15x the registry alone; CPU is that of the client, of the registry and of what is in front of it"}
		s.aim(line)
		sections = append(sections, section)
	}
	all := rows["manifest"]
	each := func(r bench.Row) float64 {
		return float64(r.Median.Wall) / float64(r.Units) / float64(time.Millisecond)
	}
	line := bench.Counted("P18", "pull a manifest that was decided about: added by the proxy", "ms", 2, each(all[proxy])-each(all[alone]))
	line.Ours, line.Limit = bench.Wall.Says(all[proxy]), all[alone].Name+": "+bench.Wall.Says(all[alone])
	s.aim(line)
	return append(sections, bench.Section{Name: "pull a manifest that was decided about", Unit: "pull", Rows: all, Ratios: []bench.Ratio{all[proxy].Over(all[alone])}}), nil
}
