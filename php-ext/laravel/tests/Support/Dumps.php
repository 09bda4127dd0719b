<?php

declare(strict_types=1);

namespace Pillion\Laravel\Tests\Support;

use Symfony\Component\VarDumper\Cloner\VarCloner;
use Symfony\Component\VarDumper\Dumper\CliDumper;

/** The output of all functions that show objects. */
final class Dumps
{
    /** @return array<string, string> what is shown, by the function that shows it */
    public static function forValue(mixed $value): array
    {
        ob_start();
        var_dump($value);
        $dumped = (string) ob_get_clean();
        // Like `dump()` and `dd()`, without their limits.
        $cloner = new VarCloner();
        $cloner->setMaxItems(-1);
        return [
            'var_dump' => $dumped,
            'print_r' => print_r($value, true),
            'an array' => print_r((array) $value, true),
            'dump' => (string) (new CliDumper())->dump($cloner->cloneVar($value), true),
        ];
    }
}
