package seal

import "testing"

// TestPlatformOf reads headers byte by byte, and never further than they go.
func TestPlatformOf(t *testing.T) {
	elf := func(class, order, machine byte) []byte {
		head := append([]byte("\x7fELF"), make([]byte, 60)...)
		head[4], head[5] = class, order
		head[18] = machine
		if order == 2 {
			head[18], head[19] = 0, machine
		}
		return head
	}
	pe := append([]byte("MZ"), make([]byte, 126)...)
	pe[60] = 64
	copy(pe[64:], "PE\x00\x00\x64\x86")
	rows := []struct {
		name, want string
		head       []byte
	}{
		{"ELF of amd64", "?/amd64", elf(2, 1, 62)},
		{"ELF of arm64", "?/arm64", elf(2, 1, 183)},
		{"ELF of s390x", "?/s390x", elf(2, 2, 22)},
		{"ELF of ppc64le", "?/ppc64le", elf(2, 1, 21)},
		{"ELF of ppc64", "?/ppc64", elf(2, 2, 21)},
		{"ELF of nothing known", "?/?", elf(2, 1, 99)},
		{"Windows", "windows/amd64", pe},
		{"Mach-O", "darwin/arm64", []byte("\xcf\xfa\xed\xfe\x0c\x00\x00\x01")},
		{"several in one", "darwin/?", []byte("\xca\xfe\xba\xbe\x00\x00\x00\x02")},
		{"a script", "", []byte("#!/bin/sh\nexit 0\n")},
		{"nothing", "", nil},
	}
	for _, r := range rows {
		if got := platformOf(r.head); got != r.want {
			t.Errorf("%s: %q, want %q", r.name, got, r.want)
		}
		for n := range r.head {
			_ = platformOf(r.head[:n])
		}
	}
	pe[60], pe[63] = 0xff, 0xff // the header is far out
	if got := platformOf(pe); got != "windows/?" {
		t.Errorf("a header that is not there: %q", got)
	}
}

func TestFits(t *testing.T) {
	rows := []struct {
		planned, found string
		want           bool
	}{
		{"linux/amd64", "?/amd64", true}, {"linux/amd64", "?/arm64", false}, {"freebsd/amd64", "?/amd64", true},
		{"linux/arm/v7", "?/arm", true}, {"windows/amd64", "?/amd64", false}, {"darwin/arm64", "?/arm64", false},
		{"windows/amd64", "windows/amd64", true}, {"windows/arm64", "windows/amd64", false}, {"linux/amd64", "windows/amd64", false},
		{"darwin/amd64", "darwin/?", true}, {"linux/amd64", "", true}, {"linux/riscv64", "?/?", true},
	}
	for _, r := range rows {
		if fits(r.planned, r.found) != r.want {
			t.Errorf("%q for %q: want %v", r.found, r.planned, r.want)
		}
	}
}

func TestChecksumFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"SHA256SUMS": true, "a/SHA512SUMS": true, "lantern_1.2.3_checksums.txt": true, "checksums.txt": true, "lantern_1.2.3_SHA256SUMS": true,
		"mychecksums.txt": false, "SHA256SUMS.sig": false, "notes.txt": false,
	} {
		if isSums(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
	for line, want := range map[string][2]string{
		"ABC  a/b\n": {"abc", "a/b"}, "abc *./a b\r\n": {"abc", "a b"}, "abc": {"abc", ""}, "": {"", ""},
	} {
		if sum, name := splitSum(line); sum != want[0] || name != want[1] {
			t.Errorf("%q: %q of %q", line, sum, name)
		}
	}
}
