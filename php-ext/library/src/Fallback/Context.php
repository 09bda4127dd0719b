<?php

declare(strict_types=1);

namespace Pillion\Fallback;

/**
 * The parsed `$context` array of calls.
 *
 * @internal
 */
final class Context
{
    /**
     * @param array<string, mixed> $extraValues values for the tools
     * @param list<string>         $approvedIds IDs of approvals that the application has granted
     * @param list<string>         $deniedIds   IDs of approvals that the application has denied
     * @param array<string, array<string, mixed>> $approvedArguments arguments that replace the original arguments
     *                                                               of approved calls, by approval ID
     */
    private function __construct(
        public readonly ?string $user = null,
        public readonly ?string $channel = null,
        public readonly array $extraValues = [],
        public readonly array $approvedIds = [],
        public readonly array $deniedIds = [],
        public readonly array $approvedArguments = [],
    ) {
    }

    /**
     * @param array<array-key, mixed> $context
     *
     * @throws \Pillion\Exception\InvalidInputException
     */
    public static function fromArray(array $context): self
    {
        $tree = Json::toTree($context, 'argument $context');
        if (is_array($tree) && $tree !== []) {
            throw Failure::invalidInput('The context must be an array with string keys');
        }
        $values = Json::toArrays($tree);
        $user = self::readText($values, 'user');
        $channel = self::readText($values, 'channel');
        $approvedArguments = array_filter((array) ($values['approved'] ?? []), is_array(...));
        $idsWithoutArguments = array_diff_key((array) ($values['approved'] ?? []), $approvedArguments);
        $approvedIds = self::readIds(['approved' => is_array($values['approved'] ?? []) ? array_values($idsWithoutArguments) : false], 'approved');
        $deniedIds = self::readIds($values, 'denied');
        if (array_filter(array_keys($approvedArguments), is_int(...)) !== []) {
            throw Failure::invalidInput("The context's 'approved' must be a list of approval ids");
        }
        unset($values['user'], $values['channel'], $values['approved'], $values['denied']);
        return new self($user, $channel, $values, [...$approvedIds, ...array_keys($approvedArguments)], $deniedIds, $approvedArguments);
    }

    /**
     * @return array<string, string> the headers for the sidecar
     *
     * @throws \Pillion\Exception\InvalidInputException when a value contains characters that are not allowed in a header
     */
    public function headers(): array
    {
        $requestId = $this->extraValues['request_id'] ?? null;
        $headers = array_filter([
            'x-pillion-user' => $this->user,
            'x-pillion-channel' => $this->channel,
            'x-request-id' => is_string($requestId) ? $requestId : null,
            'x-pillion-approval' => $this->readExtraText('approval'),
            'x-pillion-approval-wait-ms' => $this->approvalWaitMilliseconds(),
            'idempotency-key' => $this->readExtraText('idempotency_key'),
        ], is_string(...));
        foreach ($headers as $name => $value) {
            if (preg_match('/[^\t\x20-\x7e\x80-\xff]/', $value) === 1) {
                throw Failure::invalidInput("The value of the header $name has characters that are not allowed in a header");
            }
        }
        return $headers;
    }

    private function readExtraText(string $key): ?string
    {
        $text = $this->extraValues[$key] ?? null;
        return $text === null || is_string($text) ? $text : throw Failure::invalidInput("The context's '$key' must be a string");
    }

    /**
     * Returns the time to wait for an approval, in whole milliseconds; null if the context sets
     * none.
     */
    private function approvalWaitMilliseconds(): ?string
    {
        $seconds = $this->extraValues['approval_wait'] ?? null;
        return match (true) {
            $seconds === null => null,
            (is_int($seconds) || is_float($seconds)) && !is_nan((float) $seconds) && $seconds >= 0 && $seconds < 1e12 => (string) (int) ($seconds * 1000),
            default => throw Failure::invalidInput("The context's 'approval_wait' must be a number of seconds"),
        };
    }

    public static function createEmpty(): self
    {
        return new self();
    }

    /**
     * Returns the context for PHP code, in which the only approval ID is the ID of the approval
     * that the call needs.
     *
     * @return array<string, mixed>
     */
    public function toArray(?string $approvalId): array
    {
        $reservedValues = ['user' => $this->user, 'channel' => $this->channel, 'approval_id' => $approvalId];
        return array_filter($reservedValues, is_string(...)) + array_diff_key($this->extraValues, $reservedValues);
    }

    /**
     * @param array<string, mixed> $context
     *
     * @return list<string>
     */
    private static function readIds(array $context, string $key): array
    {
        $ids = $context[$key] ?? [];
        if (!is_array($ids) || !array_is_list($ids) || array_filter($ids, is_string(...)) !== $ids) {
            throw Failure::invalidInput("The context's '$key' must be a list of approval ids");
        }
        return $ids;
    }

    /** @param array<string, mixed> $context */
    private static function readText(array $context, string $key): ?string
    {
        $value = $context[$key] ?? null;
        return match (true) {
            $value === null, is_string($value) => $value,
            // An integer is accepted as a user ID, because many applications have numeric IDs.
            is_int($value), is_float($value) => Json::encode($value),
            default => throw Failure::invalidInput("The context's '$key' must be a string"),
        };
    }
}
