// Command pack makes a DEB or an RPM from packaging/nfpm.yaml. packaging/packages.sh calls it; it is in no package.
//
// nfpm makes the DEB. The RPM is made here, with the library that nfpm uses: nfpm writes absolute names into the payload
// (/etc/…), and "rpm2cpio FILE | cpio -i" as root then replaces files of the running system. rpmbuild writes ./etc/….
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm" // without it nfpm refuses the overrides for RPM
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: pack deb|rpm CONFIG FILE")
	}
	config, err := nfpm.ParseFile(args[1])
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", args[1], err)
	}
	info, err := config.Get(args[0])
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", args[1], err)
	}
	info = nfpm.WithDefaults(info)
	var out bytes.Buffer
	switch args[0] {
	case "deb":
		err = deb.Default.Package(info, &out)
	case "rpm":
		err = writeRPM(info, &out)
	default:
		err = errors.New("it is deb or rpm")
	}
	if err != nil {
		return fmt.Errorf("cannot make the %s: %w", args[0], err)
	}
	return os.WriteFile(args[2], out.Bytes(), 0o644)
}
