// allocators measures kube-apiserver's own in-memory allocators as `cargo bench -p svcplane-allocators` measures svcplane's: one allocation
// and its release, in ranges that are filled by the same permutation. It sets both side by side.
//
//	allocators -criterion DIRECTORY -figures DIRECTORY
//
// reads criterion's results from the one and writes allocators.md and allocators.json into the other.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
)

// fixture is one range of upstream's, by places: 0 is the first value that can be given.
type fixture struct {
	name   string
	places int
	// next allocates a value and releases it.
	next func() error
	take func(place int) error
}

func addresses(prefix int) (*fixture, error) {
	_, cidr, err := net.ParseCIDR(fmt.Sprintf("10.96.0.0/%d", prefix))
	if err != nil {
		return nil, err
	}
	allocator, err := ipallocator.NewInMemory(cidr)
	if err != nil {
		return nil, err
	}
	next := func() error {
		ip, err := allocator.AllocateNext()
		if err == nil {
			err = allocator.Release(ip)
		}
		return err
	}
	take := func(place int) error {
		number := 10<<24 + 96<<16 + place + 1
		return allocator.Allocate(net.IPv4(byte(number>>24), byte(number>>16), byte(number>>8), byte(number)))
	}
	return &fixture{fmt.Sprintf("prefix-%d", prefix), allocator.Free(), next, take}, nil
}

func ports() (*fixture, error) {
	ports, err := utilnet.ParsePortRange("30000-32767")
	if err != nil {
		return nil, err
	}
	allocator, err := portallocator.NewInMemory(*ports)
	if err != nil {
		return nil, err
	}
	next := func() error {
		port, err := allocator.AllocateNext()
		if err == nil {
			err = allocator.Release(port)
		}
		return err
	}
	take := func(place int) error { return allocator.Allocate(ports.Base + place) }
	return &fixture{"nodePorts", allocator.Free(), next, take}, nil
}

// permutation is the order in which places are filled, the same as on the other side: Fisher and Yates with splitmix64.
func permutation(places int) []int {
	state := uint64(42)
	random := func() uint64 {
		state += 0x9E3779B97F4A7C15
		mixed := (state ^ state>>30) * 0xBF58476D1CE4E5B9
		mixed = (mixed ^ mixed>>27) * 0x94D049BB133111EB
		return mixed ^ mixed>>31
	}
	order := make([]int, places)
	for place := range order {
		order[place] = place
	}
	for rest := places - 1; rest >= 1; rest-- {
		other := int(random() % uint64(rest+1))
		order[rest], order[other] = order[other], order[rest]
	}
	return order
}

type row struct {
	Range string `json:"range"`
	Fill  string `json:"fill"`
	// Nanoseconds.
	Svcplane float64  `json:"svcplane_ns"`
	Upstream float64  `json:"upstream_ns"`
	Ratio    float64  `json:"ratio"`
	Bitvec   *float64 `json:"bitvec_search_ns,omitempty"`
}

// criterion reads the median that it has stored for one benchmark.
func criterion(directory, group, name string) (float64, error) {
	data, err := os.ReadFile(filepath.Join(directory, group, name, "new", "estimates.json"))
	if err != nil {
		return 0, err
	}
	var estimates struct {
		Median struct {
			PointEstimate float64 `json:"point_estimate"`
		} `json:"median"`
	}
	err = json.Unmarshal(data, &estimates)
	return estimates.Median.PointEstimate, err
}

func measure(fixture *fixture, directory string) ([]row, error) {
	order, filled := permutation(fixture.places), 0
	fills := []struct {
		name string
		used int
	}{}
	for _, share := range []struct {
		name string
		part int
	}{{"0", 0}, {"50", 5_000}, {"90", 9_000}, {"99", 9_900}, {"99.99", 9_999}} {
		if used := fixture.places * share.part / 10_000; used+1 < fixture.places {
			fills = append(fills, struct {
				name string
				used int
			}{share.name, used})
		}
	}
	fills = append(fills, struct {
		name string
		used int
	}{"last free", fixture.places - 1}, struct {
		name string
		used int
	}{"full", fixture.places})

	rows := []row{}
	for _, fill := range fills {
		for ; filled < fill.used; filled++ {
			if err := fixture.take(order[filled]); err != nil {
				return nil, fmt.Errorf("%s: place %d: %w", fixture.name, order[filled], err)
			}
		}
		full, failed := fill.used == fixture.places, error(nil)
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				if err := fixture.next(); (err != nil) != full {
					failed = fmt.Errorf("%s at %s: %v", fixture.name, fill.name, err)
				}
			}
		})
		if failed != nil {
			return nil, failed
		}
		ours, err := criterion(directory, fixture.name, fill.name)
		if err != nil {
			return nil, err
		}
		upstream := float64(result.T.Nanoseconds()) / float64(result.N)
		next := row{Range: fixture.name, Fill: fill.name, Svcplane: ours, Upstream: upstream, Ratio: upstream / ours}
		if flat, err := criterion(directory, fixture.name, "bitvec, "+fill.name); err == nil {
			next.Bitvec = &flat
		}
		fmt.Printf("%-10s %-10s svcplane %8.0f ns   upstream %10.0f ns\n", next.Range, next.Fill, ours, upstream)
		rows = append(rows, next)
	}
	return rows, nil
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return module.Version
			}
		}
	}
	return "of unknown version"
}

func table(rows []row, load string) string {
	var text strings.Builder
	fmt.Fprintf(&text, `# Allocators: svcplane beside kube-apiserver

Made by `+"`make bench-allocators`"+`: one allocation and its release, in nanoseconds, by how full the range is in per cent. Both sides look from a random place of
the upper band on, then in the lower one, and are filled by the same permutation. "full" is the refusal. svcplane: median of criterion; upstream:
`+"`ipallocator.NewInMemory` and `portallocator.NewInMemory`"+` of Kubernetes %s, %s, their mutex included. The
object or etcd record that the apiserver writes for each allocation is in neither column. "bitvec" is the search alone on a flat bitmap of that crate: why svcplane's is words under summary levels.
%d processors; load of the machine before upstream's part (1, 5, 15 minutes): %s.

| range | used | svcplane | upstream | ratio | bitvec |
| --- | --- | --- | --- | --- | --- |
`, version(), runtime.Version(), runtime.NumCPU(), load)
	for _, row := range rows {
		flat, name := "", strings.Replace(row.Range, "prefix-", "/", 1)
		if row.Bitvec != nil {
			flat = fmt.Sprintf("%.0f", *row.Bitvec)
		}
		fmt.Fprintf(&text, "| %s | %s | %.0f | %.0f | %.0f | %s |\n", name, row.Fill, row.Svcplane, row.Upstream, row.Ratio, flat)
	}
	return text.String()
}

func run() error {
	testing.Init()
	results := flag.String("criterion", "target/criterion", "criterion's directory")
	figures := flag.String("figures", "docs/figures", "where to write allocators.md and allocators.json")
	flag.Parse()
	load := "not known"
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		load = strings.Join(strings.Fields(string(data))[:3], ", ")
	}
	makers := []func() (*fixture, error){ports}
	for _, prefix := range []int{24, 20, 16, 12} {
		makers = append(makers, func() (*fixture, error) { return addresses(prefix) })
	}
	rows := []row{}
	for _, make := range makers {
		fixture, err := make()
		if err != nil {
			return err
		}
		more, err := measure(fixture, *results)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	data, err := json.MarshalIndent(map[string]any{
		"kubernetes": version(), "go": runtime.Version(), "processors": runtime.NumCPU(), "load": load, "rows": rows,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*figures, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(*figures, "allocators.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*figures, "allocators.md"), []byte(table(rows, load)), 0o644)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
