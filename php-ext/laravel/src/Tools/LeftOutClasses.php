<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tools;

use Illuminate\Contracts\Config\Repository;
use Illuminate\Log\LogManager;
use Throwable;

/** The tool classes that are left out because no object of them could be made, and why. */
final class LeftOutClasses
{
    /** @var array<string, string> */
    private array $reasons = [];

    public function __construct(private readonly Repository $config, private readonly LogManager $log)
    {
    }

    /** Once a class in the log is enough for a worker, as long as the reason is the same. */
    public function add(string $class, Throwable $why): void
    {
        $reason = $why->getMessage();
        if (($this->reasons[$class] ?? null) === $reason) {
            return;
        }
        $this->reasons[$class] = $reason;
        $channel = $this->config->get('pillion.log.channel');
        if ($channel !== false) {
            $this->log->channel($channel)->warning('Tool class left out', ['class' => $class, 'error' => $reason]);
        }
    }

    /** It could be made after all. */
    public function remove(string $class): void
    {
        unset($this->reasons[$class]);
    }

    /** @return array<string, string> reasons by class */
    public function reasons(): array
    {
        return $this->reasons;
    }
}
