<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use PHPUnit\Framework\Assert;

/**
 * Assertions about calls. Only calls that ran are recorded, not calls rejected before they ran. A
 * tool of an MCP server has two names: its name on the server, and its name in the registry, which
 * begins with the server's prefix. Each assertion accepts both names.
 */
trait CallAssertions
{
    /**
     * @param string                                                             $tool   a name, or a pattern with `*`
     * @param int|array<string, mixed>|(callable(array<string, mixed>, RecordedCall): bool)|null $expect the number of
     *        calls; or arguments of one call; or a callable that accepts one call
     */
    public function assertToolCalled(string $tool, int|array|callable|null $expect = null): static
    {
        $calls = $this->recorded($tool);
        if (is_int($expect)) {
            return $this->assertToolCalledTimes($tool, $expect);
        }
        Assert::assertNotEmpty($calls, "Tool '$tool' was not called." . $this->describeCalls());
        if ($expect !== null) {
            $expectedCalls = array_filter($calls, fn (RecordedCall $call) => self::matches($call, $expect));
            Assert::assertNotEmpty($expectedCalls, "Tool '$tool' was called, but not as expected." . $this->describeCalls());
        }
        return $this;
    }

    public function assertToolCalledTimes(string $tool, int $times): static
    {
        $count = count($this->recorded($tool));
        Assert::assertSame($times, $count, "Tool '$tool' was called $count times instead of $times times.");
        return $this;
    }

    /** @param array<string, mixed>|(callable(array<string, mixed>, RecordedCall): bool)|null $expect */
    public function assertToolNotCalled(string $tool, array|callable|null $expect = null): static
    {
        $calls = array_filter(
            $this->recorded($tool),
            fn (RecordedCall $call) => $expect === null || self::matches($call, $expect),
        );
        Assert::assertEmpty($calls, "Tool '$tool' was called unexpectedly." . $this->describeCalls());
        return $this;
    }

    public function assertNothingCalled(): static
    {
        Assert::assertEmpty($this->recorded(), 'Tools were called unexpectedly.' . $this->describeCalls());
        return $this;
    }

    /** @param list<string> $tools the tool names of all calls, in order */
    public function assertCalledInOrder(array $tools): static
    {
        $names = array_map(
            fn (RecordedCall $call, ?string $expected) => in_array($expected, $call->names()->all(), true) ? $expected : $call->tool,
            $this->recorded(),
            array_slice(array_pad($tools, count($this->recorded()), null), 0, count($this->recorded())),
        );
        Assert::assertSame($tools, $names, 'The tools were not called in the expected order.');
        return $this;
    }

    private static function matches(RecordedCall $call, array|callable $expect): bool
    {
        // An array is always interpreted as arguments, even if the array is also a PHP callable.
        if (is_array($expect)) {
            return array_intersect_key($call->arguments, $expect) == $expect;
        }
        return (bool) $expect($call->arguments, $call);
    }

    private function describeCalls(): string
    {
        $lines = array_map(
            fn (RecordedCall $call) => '  ' . implode(' or ', $call->names()->all()) . ' '
                . json_encode((object) $call->arguments, JSON_PARTIAL_OUTPUT_ON_ERROR),
            $this->recorded(),
        );
        return $lines === [] ? '' : "\nThe calls were:\n" . implode("\n", $lines);
    }
}
