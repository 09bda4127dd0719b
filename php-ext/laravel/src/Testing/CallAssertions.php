<?php

declare(strict_types=1);

namespace Pillion\Laravel\Testing;

use PHPUnit\Framework\Assert;

/**
 * Assertions about calls. Only calls that ran are recorded, not calls rejected before they ran. A call of a server's
 * tool has two names, the prefixed one and the one on the server; each assertion accepts either.
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
        Assert::assertNotEmpty($calls, "Tool '$tool' was not called." . $this->whatWasCalled());
        if ($expect !== null) {
            $right = array_filter($calls, fn (RecordedCall $call) => self::matches($call, $expect));
            Assert::assertNotEmpty($right, "Tool '$tool' was called, but not as expected." . $this->whatWasCalled());
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
        Assert::assertEmpty($calls, "Tool '$tool' was called." . $this->whatWasCalled());
        return $this;
    }

    public function assertNothingCalled(): static
    {
        Assert::assertEmpty($this->recorded(), 'Tools were called.' . $this->whatWasCalled());
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
        Assert::assertSame($tools, $names, 'Other tools were called, or in another order.');
        return $this;
    }

    private static function matches(RecordedCall $call, array|callable $expect): bool
    {
        // An array is always arguments, even if the array happens to be callable.
        if (is_array($expect)) {
            return array_intersect_key($call->arguments, $expect) == $expect;
        }
        return (bool) $expect($call->arguments, $call);
    }

    private function whatWasCalled(): string
    {
        $lines = array_map(
            fn (RecordedCall $call) => '  ' . implode(' or ', $call->names()->all()) . ' '
                . json_encode((object) $call->arguments, JSON_PARTIAL_OUTPUT_ON_ERROR),
            $this->recorded(),
        );
        return $lines === [] ? '' : "\nCalled were:\n" . implode("\n", $lines);
    }
}
