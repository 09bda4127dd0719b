<?php

declare(strict_types=1);

namespace App\Chat;

use Illuminate\Support\Str;

/** The current user. This application has no login, so a visitor is identified by a number in the session. */
class Visitor
{
    public static function id(): ?string
    {
        if (!app()->bound('session') || !session()->isStarted()) {
            return null;
        }
        if (!session()->has('visitor')) {
            session(['visitor' => (string) Str::uuid()]);
        }
        return session('visitor');
    }
}
