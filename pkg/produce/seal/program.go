package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// programs refuses a program for another platform than planned, and an empty
// one. A file in no executable format, such as a script, fits every platform.
func (l carriedFiles) programs(ctx context.Context) (findings []verdict.Finding, err error) {
	for _, a := range l.Plan.Artifacts {
		if a.Class != plan.Binary || a.Platform == "" {
			continue
		}
		body, _, err := l.Workspace.Files().Open(ctx, a.Name)
		if err != nil {
			return nil, err
		}
		head := make([]byte, maxHead)
		n, err := io.ReadFull(body, head)
		_ = body.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if n == 0 {
			findings = append(findings, verdict.Find(verdict.SealMissing, a.Name, "the program is empty").
				Advise("let the tool make the program again"))
		}
		if got := platformOf(head[:n]); !fits(a.Platform, got) {
			findings = append(findings, verdict.Find(verdict.Platform, a.Name, "the program is for another platform").Differ(a.Platform, got).
				Advise("build the program for the platform that is planned, or correct its platform in release.yaml"))
		}
	}
	return findings, nil
}

// maxHead is how much of a file is read: a Windows program says its platform
// at the latest there.
const maxHead = 4 << 10

// fits compares the planned platform with the detected one; what the program
// does not say is "?" or empty.
func fits(planned, found string) bool {
	if found == "" {
		return true
	}
	os, arch, _ := strings.Cut(planned, "/")
	arch, _, _ = strings.Cut(arch, "/")
	gotOS, gotArch, _ := strings.Cut(found, "/")
	isUnix := gotOS == "?" && os != "windows" && os != "darwin"
	return (isUnix || gotOS == os) && (gotArch == "?" || gotArch == arch)
}

// platformOf reads the platform from the first bytes of a program; empty for
// an unknown format.
func platformOf(head []byte) string {
	switch {
	case len(head) >= 20 && string(head[:4]) == "\x7fELF":
		return "?/" + elfArch(head)
	case len(head) >= 64 && string(head[:2]) == "MZ":
		return "windows/" + peArch(head)
	case len(head) >= 8 && string(head[:4]) == "\xcf\xfa\xed\xfe":
		return "darwin/" + nameOf(map[uint32]string{0x01000007: "amd64", 0x0100000c: "arm64"}, binary.LittleEndian.Uint32(head[4:]))
	case len(head) >= 8 && string(head[:4]) == "\xca\xfe\xba\xbe":
		return "darwin/?" // universal: several platforms
	}
	return ""
}

func nameOf[K comparable](names map[K]string, key K) string {
	if name, is := names[key]; is {
		return name
	}
	return "?"
}

// elfArch reads the machine of an ELF header: System V ABI, "ELF Header".
func elfArch(head []byte) string {
	var order binary.ByteOrder = binary.LittleEndian
	big := head[5] == 2
	if big {
		order = binary.BigEndian
	}
	switch machine := order.Uint16(head[18:]); {
	case machine == 21 && big:
		return "ppc64"
	case machine == 21:
		return "ppc64le"
	default:
		return nameOf(map[uint16]string{3: "386", 22: "s390x", 40: "arm", 62: "amd64", 183: "arm64", 243: "riscv64", 258: "loong64"}, machine)
	}
}

// peArch reads the machine of a Windows program: PE format, "COFF File
// Header".
func peArch(head []byte) string {
	at := int(binary.LittleEndian.Uint32(head[60:]))
	if at < 0 || at > len(head)-6 || string(head[at:at+4]) != "PE\x00\x00" {
		return "?"
	}
	return nameOf(map[uint16]string{0x14c: "386", 0x8664: "amd64", 0xaa64: "arm64", 0x1c4: "arm"}, binary.LittleEndian.Uint16(head[at+4:]))
}
